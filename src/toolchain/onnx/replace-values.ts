// Redirects the readers of values to equal values, so that the originals become unused.

import { redirectUse, renameAtOrigin } from "./graph-edits.ts";
import { findAmbiguousNames } from "./graph-queries.ts";
import type { Value, ValueTable } from "./value-table.ts";

/**
 * Changes the graph and invalidates the table. A graph output keeps its name: its replacement takes
 * that name if the same graph produces it and it is not an output itself. Otherwise the output is
 * left alone.
 * @param replacements map each value to an earlier value of the same or an enclosing graph; chains
 * are followed
 * @returns the values that are now unread; the caller removes their producers
 */
export function replaceValues(
  table: ValueTable,
  replacements: ReadonlyMap<Value, Value>,
): ReadonlySet<Value> {
  const ambiguous = findAmbiguousNames(table);
  const isUnambiguous = (value: Value, replacement: Value) =>
    !ambiguous.has(value.name) && !ambiguous.has(replacement.name);
  const targetOf = (value: Value): Value => {
    const replacement = replacements.get(value);
    return replacement === undefined || !isUnambiguous(value, replacement)
      ? value
      : targetOf(replacement);
  };
  const targets = new Map(
    [...replacements.keys()]
      .map((value) => [value, targetOf(value)] as const)
      .filter(([value, target]) => value !== target),
  );

  const renamed = new Set<Value>();
  const unread = new Set<Value>();
  for (const [value, target] of targets) {
    if (!value.uses.some(isGraphOutputUse)) {
      unread.add(value);
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
      unread.add(value);
    } else {
      continue;
    }
  }
  for (const target of renamed) for (const use of target.uses) redirectUse(use, target.name);
  for (const [value, target] of targets)
    for (const use of value.uses) if (use.kind === "node") redirectUse(use, target.name);
  return unread;
}

const isGraphOutputUse = ({ kind }: Value["uses"][number]): boolean => kind === "output";

/**
 * Removes the value info of a value that becomes an output, because outputs declare their own type.
 */
function removeValueInfo({ graph, name }: Value): void {
  graph.valueInfo = graph.valueInfo.filter((info) => info.name !== name);
}
