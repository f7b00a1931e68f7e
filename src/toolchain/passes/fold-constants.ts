// Stores values that do not depend on the model's inputs as initializers; compute-constants.ts
// computes them.

import { readConstantTensor } from "../onnx/constants.ts";
import { NodeChanges } from "../onnx/graph-edits.ts";
import { addInitializer } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { byteSizeOf, withTensorName } from "../onnx/tensor-data.ts";
import type { Value, ValueTable } from "../onnx/value-table.ts";
import { computeConstants } from "./compute-constants.ts";
import { type PassContext, buildSortedValueTable } from "./pass.ts";

export interface ConstantFoldingOptions {
  /** Maximum growth: the result's size minus the size of the constants that become unused. */
  readonly maxGrowthBytes?: number;
}

/**
 * Constant nodes also become initializers. Graph outputs remain computed.
 * @returns the number of removed nodes
 */
export async function foldConstants(
  model: Model,
  { runtime }: PassContext,
  { maxGrowthBytes = 65_536 }: ConstantFoldingOptions = {},
): Promise<number> {
  const table = buildSortedValueTable(model);
  const known = await computeConstants(model, table, runtime);
  const removed = new Set<NodeProto>();
  // In reverse order, all readers of a value are decided before it, so values without remaining
  // readers are not stored.
  for (const node of table.nodes.toReversed()) {
    const results = table.outputsOf(node).filter((value) => value !== undefined);
    if (
      !results.every((value) => known.has(value) && value.uses.every(({ kind }) => kind === "node"))
    )
      continue;
    const stored = results.filter(({ uses }) =>
      uses.some((use) => use.kind === "node" && !removed.has(use.node)),
    );
    const bytes = stored.reduce((total, value) => total + tensorBytes(known.get(value)), 0);
    if (bytes > maxGrowthBytes + freedBytes(node, table, removed)) continue;
    for (const value of stored) {
      const tensor = known.get(value);
      if (tensor !== undefined)
        addInitializer(model, value.graph, withTensorName(tensor, value.name));
    }
    removed.add(node);
  }
  const changes = new NodeChanges();
  for (const node of removed) changes.remove(node);
  changes.apply(model);
  return removed.size;
}

/**
 * Sums the constants that only this node and its predecessors need. A Constant node frees its own
 * value.
 */
function freedBytes(node: NodeProto, table: ValueTable, removed: ReadonlySet<NodeProto>): number {
  const predecessors = new Set([node]);
  const read = new Set<Value>();
  const waiting = [node];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const value of table.inputsOf(next)) {
      if (value === undefined) continue;
      read.add(value);
      if (value.origin.kind !== "node" || predecessors.has(value.origin.node)) continue;
      predecessors.add(value.origin.node);
      waiting.push(value.origin.node);
    }
  }
  const isFreed = ({ uses }: Value) =>
    uses.every(
      (use) => use.kind === "node" && (predecessors.has(use.node) || removed.has(use.node)),
    );
  return [...table.outputsOf(node), ...[...read].filter(isFreed)].reduce(
    (total, value) => total + tensorBytes(readConstantTensor(value)),
    0,
  );
}

const tensorBytes = (tensor: TensorProto | undefined): number =>
  tensor === undefined ? 0 : Number(byteSizeOf(tensor) ?? 0n);
