// Stores what does not depend on the model's inputs as initializers, computed once (compute-constants.ts).

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
  /** How much larger a result may be than the constants that nothing else needs. */
  readonly maxGrowthBytes?: number;
}

/** Constant nodes become initializers too. An output of a graph stays computed. @returns nodes removed */
export async function foldConstants(
  model: Model,
  { runtime }: PassContext,
  { maxGrowthBytes = 65_536 }: ConstantFoldingOptions = {},
): Promise<number> {
  const table = buildSortedValueTable(model);
  const known = await computeConstants(model, table, runtime);
  const removed = new Set<NodeProto>();
  // From the last to the first: it is decided of all readers before, so what is read by none that stays is not stored.
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

/** Of the constants that only this node and what leads to it need; of a Constant node, its own. */
function freedBytes(node: NodeProto, table: ValueTable, removed: ReadonlySet<NodeProto>): number {
  const before = new Set([node]);
  const read = new Set<Value>();
  const waiting = [node];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const value of table.inputsOf(next)) {
      if (value === undefined) continue;
      read.add(value);
      if (value.origin.kind !== "node" || before.has(value.origin.node)) continue;
      before.add(value.origin.node);
      waiting.push(value.origin.node);
    }
  }
  const isFreed = ({ uses }: Value) =>
    uses.every((use) => use.kind === "node" && (before.has(use.node) || removed.has(use.node)));
  return [...table.outputsOf(node), ...[...read].filter(isFreed)].reduce(
    (total, value) => total + tensorBytes(readConstantTensor(value)),
    0,
  );
}

const tensorBytes = (tensor: TensorProto | undefined): number =>
  tensor === undefined ? 0 : Number(byteSizeOf(tensor) ?? 0n);
