// Folds BatchNormalization into the Conv, ConvTranspose or Gemm before it: y = s (x - mean) / sqrt(variance + epsilon) + b
// is a factor and a summand for each channel, which weights and bias can hold.

import { constantOf } from "../onnx/constants.ts";
import { FreshNames, NodeChanges } from "../onnx/edit.ts";
import { floatOf, intOf, soleReaderOf } from "../onnx/find.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxNode } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import type { ValueTable } from "../onnx/values.ts";
import { layerOf, rewriteLayer } from "./layer.ts";
import { tableOf } from "./pass.ts";

/** Before it, a node says itself whether it trains. */
const OLDEST_OPSET = 7;

/** @returns nodes folded */
export function foldBatchNorm(model: Model): number {
  if ((opsetsOf(model).get("") ?? 0) < OLDEST_OPSET) return 0;
  const table = tableOf(model);
  const names = new FreshNames(model);
  const changes = new NodeChanges();
  let count = 0;
  for (const node of table.nodes) {
    const [input] = table.inputsOf(node);
    if (!isOnnxNode(node, "BatchNormalization") || soleReaderOf(input) !== node) continue;
    const layer = layerOf(input, table);
    const line = layer && linesOf(node, table, layer.channels);
    if (layer === undefined || line === undefined) continue;
    const weights = layer.weights.map(
      (weight, index) => weight * (line.factors[layer.channelOf(index)] ?? 0),
    );
    const bias = layer.bias.map(
      (summand, channel) => summand * (line.factors[channel] ?? 0) + (line.summands[channel] ?? 0),
    );
    rewriteLayer(model, names, layer, { weights, bias });
    layer.node.output[0] = node.output[0] ?? "";
    changes.remove(node);
    count++;
  }
  changes.apply(model);
  return count;
}

interface Lines {
  readonly factors: Float64Array;
  readonly summands: Float64Array;
}

/** Undefined for one that trains, or whose parameters are not FP32 constants for each channel. */
function linesOf(node: NodeProto, table: ValueTable, channels: number): Lines | undefined {
  const inInference =
    intOf(node, "training_mode", 0) === 0 &&
    intOf(node, "spatial", 1) === 1 &&
    node.output.slice(1).every((name) => name === "");
  const [scale, shift, mean, variance] = table.inputsOf(node).slice(1).map(constantOf);
  if (
    !inInference ||
    ![scale, shift, mean, variance].every((values) => values?.length === channels)
  )
    return undefined;
  const epsilon = floatOf(node, "epsilon", 1e-5);
  const factors = Float64Array.from(
    { length: channels },
    (_, channel) => (scale?.[channel] ?? 0) / Math.sqrt((variance?.[channel] ?? 0) + epsilon),
  );
  const summands = factors.map(
    (factor, channel) => (shift?.[channel] ?? 0) - (mean?.[channel] ?? 0) * factor,
  );
  return [...factors, ...summands].every(Number.isFinite) ? { factors, summands } : undefined;
}
