// Gives a value another name everywhere.

import { UniqueNames, redirectUse, renameAtOrigin } from "./graph-edits.ts";
import type { Model } from "./model-file.ts";
import type { Value, ValueTable } from "./value-table.ts";
import { traverseGraphs } from "./graph-traversal.ts";

/** Changes the model; the table's values have their new names. What has the name already, in whichever graph, gets a new one. */
export function renameValue(model: Model, table: ValueTable, value: Value, name: string): void {
  if (value.name === name) return;
  const names = new UniqueNames(model);
  for (const other of table.values)
    if (other.name === name) renameOne(model, other, names.reserve(name));
  renameOne(model, value, name);
}

function renameOne(model: Model, value: Value, name: string): void {
  for (const graph of traverseGraphs(model.graph))
    if (graph === value.graph)
      for (const info of graph.valueInfo) if (info.name === value.name) info.name = name;
  renameAtOrigin(value, name);
  for (const use of value.uses) redirectUse(use, name);
}
