// Queries for pattern matching: the producer of a value, its sole consumer, and attribute values.

import { findAttribute, isOnnxOp } from "./nodes.ts";
import type { NodeProto } from "./proto/onnx_pb.js";
import type { Value, ValueTable } from "./value-table.ts";

/** Returns the node that produces the value, if it is one of these standard ONNX operators. */
export function producerOf(
  value: Value | undefined,
  ...ops: readonly string[]
): NodeProto | undefined {
  return value?.origin.kind === "node" && isOnnxOp(value.origin.node, ...ops)
    ? value.origin.node
    : undefined;
}

/**
 * Returns the only node that reads the value, if it reads it once and in the graph that produces
 * the value.
 */
export function soleConsumerOf(value: Value | undefined): NodeProto | undefined {
  const [use, ...others] = value?.uses ?? [];
  return use?.kind === "node" && others.length === 0 && use.graph === value?.graph
    ? use.node
    : undefined;
}

/**
 * Names with more than one value, in nested or sibling graphs. A reader cannot be redirected to
 * such a name.
 */
export function findAmbiguousNames({ values }: ValueTable): ReadonlySet<string> {
  const [seenNames, ambiguous] = [new Set<string>(), new Set<string>()];
  for (const { name } of values) (seenNames.has(name) ? ambiguous : seenNames).add(name);
  return ambiguous;
}

export const readIntAttribute = (node: NodeProto, name: string, fallback: number): number =>
  Number(findAttribute(node, name)?.i ?? fallback);
export const readFloatAttribute = (node: NodeProto, name: string, fallback: number): number =>
  findAttribute(node, name)?.f ?? fallback;
