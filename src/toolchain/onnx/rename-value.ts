// Renames a value at its origin and at all uses.

import { UniqueNames, redirectUse, renameAtOrigin } from "./graph-edits.ts";
import { traverseGraphs } from "./graph-traversal.ts";
import type { Model } from "./model-file.ts";
import type { Value, ValueTable } from "./value-table.ts";

/**
 * Changes the model and the table's values. Any other value with that name, in any graph, gets a
 * new name.
 */
export function renameValue(model: Model, table: ValueTable, value: Value, name: string): void {
  if (value.name === name) return;
  const names = new UniqueNames(model);
  for (const other of table.values)
    if (other.name === name) renameWithinGraph(model, other, names.reserve(name));
  renameWithinGraph(model, value, name);
}

function renameWithinGraph(model: Model, value: Value, name: string): void {
  for (const graph of traverseGraphs(model.graph))
    if (graph === value.graph)
      for (const info of graph.valueInfo) if (info.name === value.name) info.name = name;
  renameAtOrigin(value, name);
  for (const use of value.uses) redirectUse(use, name);
}
