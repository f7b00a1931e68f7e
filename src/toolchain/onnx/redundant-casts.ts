// Removes redundant casts: casts to the value's own type, and casts back after a widening cast.

import { NodeChanges, redirectUse } from "./graph-edits.ts";
import type { Model } from "./model-file.ts";
import { isOnnxOp } from "./nodes.ts";
import type { NodeProto } from "./proto/onnx_pb.js";
import { type Value, buildValueTable } from "./value-table.ts";

/** Types that can represent every value of the key's type. */
const LOSSLESS_CASTS: Readonly<Record<string, readonly string[]>> = {
  float16: ["float", "double"],
  bfloat16: ["float", "double"],
  float: ["double"],
};

/**
 * Changes the model. A graph output keeps its producer, which becomes an Identity.
 * @returns the removed or replaced nodes
 */
export function removeRedundantCasts(model: Model): ReadonlySet<NodeProto> {
  const table = buildValueTable(model);
  /** The value that can be read in place of each redundant cast's output. */
  const sources = new Map<Value, Value>();
  const readers = new Map(table.values.map((value) => [value, value.uses.length]));
  const adjustReaders = (value: Value, delta: number) =>
    readers.set(value, (readers.get(value) ?? 0) + delta);
  const sourceOf = (value: Value): Value => sources.get(value) ?? value;
  const inputOfCast = ({ origin }: Value): Value | undefined =>
    origin.kind === "node" && isOnnxOp(origin.node, "Cast")
      ? table.inputsOf(origin.node)[0]
      : undefined;

  for (const value of table.values) {
    const input = inputOfCast(value);
    if (input === undefined) continue;
    const castInput = sourceOf(input);
    const originalValue = inputOfCast(castInput) && sourceOf(inputOfCast(castInput) ?? castInput);
    const isLossless =
      originalValue !== undefined &&
      LOSSLESS_CASTS[originalValue.type ?? ""]?.includes(castInput.type ?? "") === true;
    const source = [castInput, ...(isLossless ? [originalValue] : [])].find(
      ({ type }) => type === value.type,
    );
    if (source !== undefined && source.type !== undefined) sources.set(value, source);
  }

  const replaced: NodeProto[] = [];
  for (const [value, source] of sources) {
    const nodeUses = value.uses.filter(({ kind }) => kind === "node");
    for (const use of nodeUses) redirectUse(use, source.name);
    readers.set(value, value.uses.length - nodeUses.length);
    adjustReaders(source, nodeUses.length);
    if (nodeUses.length === value.uses.length || value.origin.kind !== "node") continue;
    const [input] = table.inputsOf(value.origin.node);
    value.origin.node.opType = "Identity";
    value.origin.node.attribute = [];
    value.origin.node.input = [source.name];
    adjustReaders(source, 1);
    if (input !== undefined) adjustReaders(sourceOf(input), -1);
    replaced.push(value.origin.node);
  }

  const changes = new NodeChanges();
  const removed = new Set<NodeProto>();
  for (const value of table.values.toReversed()) {
    const input = inputOfCast(value);
    const wasUnread = value.uses.length === 0 && !sources.has(value);
    if (
      input === undefined ||
      value.origin.kind !== "node" ||
      wasUnread ||
      readers.get(value) !== 0
    )
      continue;
    changes.remove(value.origin.node);
    removed.add(value.origin.node);
    adjustReaders(sourceOf(input), -1);
  }
  changes.apply(model);
  return new Set([...removed, ...replaced]);
}
