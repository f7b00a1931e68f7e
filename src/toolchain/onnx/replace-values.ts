// Gives the readers of values others that are the same, so that nothing needs the former any more.

import { redirectUse, renameAtOrigin } from "./graph-edits.ts";
import { findAmbiguousNames } from "./graph-queries.ts";
import type { Value, ValueTable } from "./value-table.ts";

/**
 * Changes the graph, after which the table is out of date. An output of a graph keeps its name: what replaces it is made
 * under that name, if the same graph makes it and it is not an output itself; else the output stays as it is.
 * @param replacements each by a value that comes before it, of its own graph or of one around it; chains are followed
 * @returns the values that nothing reads now; the caller removes what makes them
 */
export function replaceValues(
  table: ValueTable,
  replacements: ReadonlyMap<Value, Value>,
): ReadonlySet<Value> {
  const ambiguous = findAmbiguousNames(table);
  const can = (value: Value, by: Value) => !ambiguous.has(value.name) && !ambiguous.has(by.name);
  const targetOf = (value: Value): Value => {
    const by = replacements.get(value);
    return by === undefined || !can(value, by) ? value : targetOf(by);
  };
  const targets = new Map(
    [...replacements.keys()]
      .map((value) => [value, targetOf(value)] as const)
      .filter(([value, target]) => value !== target),
  );

  const renamed = new Set<Value>();
  const gone = new Set<Value>();
  for (const [value, target] of targets) {
    if (!value.uses.some(isGraphOutputUse)) {
      gone.add(value);
    } else if (
      value.uses.filter(isGraphOutputUse).length === 1 &&
      target.graph === value.graph &&
      target.origin.kind === "node" &&
      !target.uses.some(isGraphOutputUse) &&
      !renamed.has(target)
    ) {
      removeValueInfo(target);
      renameAtOrigin(target, value.name);
      renamed.add(target);
      gone.add(value);
    } else {
      continue;
    }
  }
  for (const target of renamed) for (const use of target.uses) redirectUse(use, target.name);
  for (const [value, target] of targets)
    for (const use of value.uses) if (use.kind === "node") redirectUse(use, target.name);
  return gone;
}

const isGraphOutputUse = ({ kind }: Value["uses"][number]): boolean => kind === "output";

/** The output that it becomes is declared as an output. */
function removeValueInfo({ graph, name }: Value): void {
  graph.valueInfo = graph.valueInfo.filter((info) => info.name !== name);
}
