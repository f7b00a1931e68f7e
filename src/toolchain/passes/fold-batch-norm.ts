// Folds BatchNormalization into the preceding Conv, ConvTranspose or Gemm. The normalization
// y = s (x - mean) / sqrt(variance + epsilon) + b is one factor and one offset per channel, which
// weights and bias can absorb.

import { readFloatConstant } from "../onnx/constants.ts";
import { UniqueNames, NodeChanges } from "../onnx/graph-edits.ts";
import { readFloatAttribute, readIntAttribute, soleConsumerOf } from "../onnx/graph-queries.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import type { ValueTable } from "../onnx/value-table.ts";
import { buildSortedValueTable } from "./pass.ts";
import { findWeightedLayer, replaceLayerConstants } from "./weighted-layer.ts";

/** In earlier versions, the node's own attribute selects training or inference. */
const MIN_OPSET = 7;

/** @returns the number of folded nodes */
export function foldBatchNorm(model: Model): number {
  if ((opsetsOf(model).get("") ?? 0) < MIN_OPSET) return 0;
  const table = buildSortedValueTable(model);
  const names = new UniqueNames(model);
  const changes = new NodeChanges();
  let count = 0;
  for (const node of table.nodes) {
    const [input] = table.inputsOf(node);
    if (!isOnnxOp(node, "BatchNormalization") || soleConsumerOf(input) !== node) continue;
    const layer = findWeightedLayer(input, table);
    const affine = layer && readChannelAffine(node, table, layer.channels);
    if (layer === undefined || affine === undefined) continue;
    const weights = layer.weights.map(
      (weight, index) => weight * (affine.scales[layer.channelOf(index)] ?? 0),
    );
    const bias = layer.bias.map(
      (summand, channel) =>
        summand * (affine.scales[channel] ?? 0) + (affine.offsets[channel] ?? 0),
    );
    replaceLayerConstants(model, names, layer, { weights, bias });
    layer.node.output[0] = node.output[0] ?? "";
    changes.remove(node);
    count++;
  }
  changes.apply(model);
  return count;
}

interface ChannelAffine {
  readonly scales: Float64Array;
  readonly offsets: Float64Array;
}

/**
 * Returns undefined if the node trains, or if its parameters are not one FP32 constant per channel.
 */
function readChannelAffine(
  node: NodeProto,
  table: ValueTable,
  channels: number,
): ChannelAffine | undefined {
  const isInference =
    readIntAttribute(node, "training_mode", 0) === 0 &&
    readIntAttribute(node, "spatial", 1) === 1 &&
    node.output.slice(1).every((name) => name === "");
  const [scale, shift, mean, variance] = table.inputsOf(node).slice(1).map(readFloatConstant);
  if (
    !isInference ||
    ![scale, shift, mean, variance].every((values) => values?.length === channels)
  )
    return undefined;
  const epsilon = readFloatAttribute(node, "epsilon", 1e-5);
  const factors = Float64Array.from(
    { length: channels },
    (_, channel) => (scale?.[channel] ?? 0) / Math.sqrt((variance?.[channel] ?? 0) + epsilon),
  );
  const summands = factors.map(
    (factor, channel) => (shift?.[channel] ?? 0) - (mean?.[channel] ?? 0) * factor,
  );
  return [...factors, ...summands].every(Number.isFinite)
    ? { scales: factors, offsets: summands }
    : undefined;
}
