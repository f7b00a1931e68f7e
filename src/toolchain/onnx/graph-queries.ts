// Ways to find patterns: who makes a value, and whether one node alone reads it.

import { findAttribute, isOnnxOp } from "./nodes.ts";
import type { NodeProto } from "./proto/onnx_pb.js";
import type { Value, ValueTable } from "./value-table.ts";

/** The node that makes the value, if it is one of these of ONNX's own operators. */
export function producerOf(
  value: Value | undefined,
  ...ops: readonly string[]
): NodeProto | undefined {
  return value?.origin.kind === "node" && isOnnxOp(value.origin.node, ...ops)
    ? value.origin.node
    : undefined;
}

/** The node that is all that reads the value, once, and in the graph that makes it. */
export function soleConsumerOf(value: Value | undefined): NodeProto | undefined {
  const [use, ...others] = value?.uses ?? [];
  return use?.kind === "node" && others.length === 0 && use.graph === value?.graph
    ? use.node
    : undefined;
}

/** Names that stand for more than one value, in graphs within each other or side by side: a reader may not be given them. */
export function findAmbiguousNames({ values }: ValueTable): ReadonlySet<string> {
  const [seen, twice] = [new Set<string>(), new Set<string>()];
  for (const { name } of values) (seen.has(name) ? twice : seen).add(name);
  return twice;
}

export const readIntAttribute = (node: NodeProto, name: string, otherwise: number): number =>
  Number(findAttribute(node, name)?.i ?? otherwise);
export const readFloatAttribute = (node: NodeProto, name: string, otherwise: number): number =>
  findAttribute(node, name)?.f ?? otherwise;
