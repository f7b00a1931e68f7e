// Takes out casts that change nothing: to the type that a value has, and back to what was cast to a wider type before.

import { NodeChanges, redirectUse } from "./graph-edits.ts";
import type { Model } from "./model-file.ts";
import { isOnnxOp } from "./nodes.ts";
import type { NodeProto } from "./proto/onnx_pb.js";
import { type Value, buildValueTable } from "./value-table.ts";

/** What each type's numbers can be cast to without a change. */
const LOSSLESS_CASTS: Readonly<Record<string, readonly string[]>> = {
  float16: ["float", "double"],
  bfloat16: ["float", "double"],
  float: ["double"],
};

/** Changes the model. An output keeps its maker, as an Identity. @returns the nodes that are gone */
export function removeRedundantCasts(model: Model): ReadonlySet<NodeProto> {
  const table = buildValueTable(model);
  /** What can be read in a value's place. */
  const sources = new Map<Value, Value>();
  const readers = new Map(table.values.map((value) => [value, value.uses.length]));
  const change = (value: Value, by: number) => readers.set(value, (readers.get(value) ?? 0) + by);
  const sourceOf = (value: Value): Value => sources.get(value) ?? value;
  const inputOfCast = ({ origin }: Value): Value | undefined =>
    origin.kind === "node" && isOnnxOp(origin.node, "Cast")
      ? table.inputsOf(origin.node)[0]
      : undefined;

  for (const value of table.values) {
    const input = inputOfCast(value);
    if (input === undefined) continue;
    const from = sourceOf(input);
    const before = inputOfCast(from) && sourceOf(inputOfCast(from) ?? from);
    const exact =
      before !== undefined && LOSSLESS_CASTS[before.type ?? ""]?.includes(from.type ?? "") === true;
    const source = [from, ...(exact ? [before] : [])].find(({ type }) => type === value.type);
    if (source !== undefined && source.type !== undefined) sources.set(value, source);
  }

  const replaced: NodeProto[] = [];
  for (const [value, source] of sources) {
    const inside = value.uses.filter(({ kind }) => kind === "node");
    for (const use of inside) redirectUse(use, source.name);
    readers.set(value, value.uses.length - inside.length);
    change(source, inside.length);
    if (inside.length === value.uses.length || value.origin.kind !== "node") continue;
    const [input] = table.inputsOf(value.origin.node);
    value.origin.node.opType = "Identity";
    value.origin.node.attribute = [];
    value.origin.node.input = [source.name];
    change(source, 1);
    if (input !== undefined) change(sourceOf(input), -1);
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
    change(sourceOf(input), -1);
  }
  changes.apply(model);
  return new Set([...removed, ...replaced]);
}
