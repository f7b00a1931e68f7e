// Gives a value another name everywhere.

import { FreshNames, redirect, renameAtOrigin } from "./edit.ts";
import type { Model } from "./model-file.ts";
import type { Value, ValueTable } from "./values.ts";
import { graphsWithin } from "./walk.ts";

/** Changes the model; the table's values have their new names. What has the name already, in whichever graph, gets a new one. */
export function renameValue(model: Model, table: ValueTable, value: Value, name: string): void {
  if (value.name === name) return;
  const names = new FreshNames(model);
  for (const other of table.values) if (other.name === name) rename(model, other, names.take(name));
  rename(model, value, name);
}

function rename(model: Model, value: Value, name: string): void {
  for (const graph of graphsWithin(model.graph))
    if (graph === value.graph)
      for (const info of graph.valueInfo) if (info.name === value.name) info.name = name;
  renameAtOrigin(value, name);
  for (const use of value.uses) redirect(use, name);
}
