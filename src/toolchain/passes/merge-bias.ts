// Merges a constant that is added after a layer into the layer's bias; MatMul with such an Add
// becomes Gemm.

import { readConstantTensor } from "../onnx/constants.ts";
import { UniqueNames, NodeChanges, setInput } from "../onnx/graph-edits.ts";
import { producerOf, soleConsumerOf } from "../onnx/graph-queries.ts";
import { addInitializer } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { inferRanks } from "../onnx/rank-inference.ts";
import { makeTensor } from "../onnx/tensor-data.ts";
import type { Value } from "../onnx/value-table.ts";
import { buildSortedValueTable } from "./pass.ts";
import {
  findWeightedLayer,
  readPerChannelConstant,
  replaceLayerConstants,
} from "./weighted-layer.ts";

/** In earlier versions, Add and Gemm broadcast only if an attribute says so. */
const MIN_OPSET = 7;

/** @returns the number of removed Adds */
export function mergeBias(model: Model): number {
  if ((opsetsOf(model).get("") ?? 0) < MIN_OPSET) return 0;
  const table = buildSortedValueTable(model);
  const rankOf = inferRanks(model, table);
  const names = new UniqueNames(model);
  const changes = new NodeChanges();
  const changed = new Set<NodeProto>();
  for (const node of table.nodes) {
    if (!isOnnxOp(node, "Add")) continue;
    const [left, right] = table.inputsOf(node);
    const producer = mergeIntoProducer(node, left, right) ?? mergeIntoProducer(node, right, left);
    if (producer === undefined) continue;
    producer.output[0] = node.output[0] ?? "";
    changed.add(producer);
    changes.remove(node);
  }
  changes.apply(model);
  return changed.size;

  /**
   * @returns the producer of `value`, which now adds `summand` itself; undefined if they cannot be
   * merged
   */
  function mergeIntoProducer(
    add: NodeProto,
    value: Value | undefined,
    summand: Value | undefined,
  ): NodeProto | undefined {
    if (
      value?.origin.kind !== "node" ||
      changed.has(value.origin.node) ||
      soleConsumerOf(value) !== add
    )
      return undefined;
    return mergeIntoLayer(value, summand) ?? mergeIntoGemm(value, summand);
  }

  function mergeIntoLayer(value: Value, summand: Value | undefined): NodeProto | undefined {
    const layer = findWeightedLayer(value, table);
    const added = layer && readPerChannelConstant(summand, layer.channels, layer.rank, 1);
    if (layer === undefined || added === undefined) return undefined;
    replaceLayerConstants(model, names, layer, {
      bias: layer.bias.map((bias, channel) => bias + (added[channel] ?? 0)),
    });
    return layer.node;
  }

  function mergeIntoGemm(value: Value, summand: Value | undefined): NodeProto | undefined {
    const node = producerOf(value, "MatMul");
    const [first, second] = node === undefined ? [] : table.inputsOf(node);
    const dims = readConstantTensor(second)?.dims;
    if (node === undefined || dims?.length !== 2 || rankOf(first) !== 2 || value.type !== "float")
      return undefined;
    const columns = Number(dims[1]);
    const added = readPerChannelConstant(summand, columns, 2, 1);
    if (added === undefined) return undefined;
    const name = names.reserve(`${node.output[0]}_bias`);
    addInitializer(
      model,
      value.graph,
      makeTensor(name, "float", [BigInt(columns)], Float32Array.from(added)),
    );
    node.opType = "Gemm";
    setInput(node, 2, name);
    return node;
  }
}
