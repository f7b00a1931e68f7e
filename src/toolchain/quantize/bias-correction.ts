// Corrects biases after quantization. Rounded weights and clipped activations shift the mean of a
// layer's output, and a changed bias reverses the shift. Nagel et al. 2019, "Data-Free Quantization
// Through Weight Equalization and Bias Correction", section 4.2, the empirical form.

import type { Runtime } from "../../runtime/runtime.ts";
import { UniqueNames } from "../onnx/graph-edits.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { isOnnxOp, removeAttribute } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { makeTensor } from "../onnx/tensor-data.ts";
import type { Value, ValueTable } from "../onnx/value-table.ts";
import { removeUnused } from "../passes/remove-unused.ts";
import { captureActivations, type InputSamples } from "./capture-activations.ts";
import type { QuantizableLayer } from "./quantizable-layers.ts";
import { readFloatTensor } from "./quantize-weights.ts";
import { planStaticQuantization } from "./static-plan.ts";
import {
  prepareGraph,
  quantizeStatic,
  type ActivationRanges,
  type StaticOptions,
} from "./static-quantization.ts";

export interface CorrectedBias {
  readonly node: string;
  /** Largest shift of a channel's mean. */
  readonly largestShift: number;
}

/**
 * Changes the biases of an FP32 graph that is then quantized with the same ranges and options.
 * Layers are corrected in order, with all preceding layers quantized and corrected. This takes one
 * run over the samples per layer.
 * @param onLayer receives the number of completed layers
 * @returns the corrected layers; a MatMul without a following Add has no bias to correct
 * @throws not_quantizable, session_failed
 */
export async function correctBiases(
  runtime: Runtime,
  model: Model,
  ranges: ActivationRanges,
  samples: InputSamples,
  options: StaticOptions = {},
  onLayer: (completed: number, total: number) => void = () => {},
): Promise<CorrectedBias[]> {
  prepareGraph(model);
  const { layers, table } = planStaticQuantization(model, options);
  const corrected: CorrectedBias[] = [];
  const targets = layers.flatMap((layer) => {
    const bias = findBias(table, layer);
    return bias === undefined ? [] : [{ layer, bias }];
  });
  const fp32Means = await measureChannelMeans(
    runtime,
    model,
    targets.map(({ layer }) => layer),
    samples,
  );
  for (const [position, { layer, bias }] of targets.entries()) {
    const quantized = parseModel(serializeModel(model));
    quantizeStatic(quantized, ranges, options);
    const output =
      quantized.graph.node.find(({ name }) => name === layer.node.name)?.output[0] ?? layer.y.name;
    const [quantizedMeans] = await measureChannelMeans(
      runtime,
      quantized,
      [{ ...layer, y: { ...layer.y, name: output } }],
      samples,
    );
    const shifts = Float64Array.from(
      quantizedMeans ?? [],
      (mean, channel) => mean - (fp32Means[position]?.[channel] ?? mean),
    );
    setBias(
      model,
      layer,
      bias,
      bias.values.map((value, channel) => value - (shifts[channel] ?? 0)),
    );
    corrected.push({
      node: layer.node.name,
      largestShift: shifts.reduce((largest, shift) => Math.max(largest, Math.abs(shift)), 0),
    });
    onLayer(position + 1, targets.length);
  }
  removeUnused(model);
  return corrected;
}

interface BiasConstant {
  readonly values: Float32Array;
  readonly node: NodeProto;
  /** Index among the node's inputs. */
  readonly position: number;
}

function findBias(
  table: ValueTable,
  { node, op, y, weights, bias }: QuantizableLayer,
): BiasConstant | undefined {
  const channels = weights.dims[weights.axis] ?? 0;
  if (op !== "MatMul") return { values: bias ?? new Float32Array(channels), node, position: 2 };
  const [use, ...others] = y.uses;
  if (use?.kind !== "node" || others.length > 0 || !isOnnxOp(use.node, "Add")) return undefined;
  const position = 1 - use.position;
  const added = readFloatTensor(table.inputsOf(use.node)[position]);
  return added?.values.length === channels && added.dims.at(-1) === channels
    ? { values: added.values, node: use.node, position }
    : undefined;
}

function setBias(
  model: Model,
  { node: layer }: QuantizableLayer,
  { node, position }: BiasConstant,
  values: Float32Array,
): void {
  const name = new UniqueNames(model).reserve(`${layer.name}_corrected_bias`);
  model.graph.initializer.push(makeTensor(name, "float", [BigInt(values.length)], values));
  node.input[position] = name;
  // The corrected values already include beta.
  if (isOnnxOp(node, "Gemm")) removeAttribute(node, "beta");
}

/** Measures the layers' outputs before other nodes add anything to them. */
async function measureChannelMeans(
  runtime: Runtime,
  model: Model,
  layers: readonly (Pick<QuantizableLayer, "op" | "weights"> & {
    readonly y: Pick<Value, "name">;
  })[],
  samples: InputSamples,
): Promise<Float64Array[]> {
  const sums = layers.map(({ weights }) => ({
    total: new Float64Array(weights.dims[weights.axis] ?? 0),
    count: 0,
  }));
  await captureActivations(
    runtime,
    model,
    layers.map(({ y }) => y.name),
    samples,
    (observed) => {
      for (const [position, { op, y }] of layers.entries()) {
        const [sum, value] = [sums[position], observed.get(y.name)];
        if (sum === undefined || value === undefined) continue;
        const { data, shape } = value;
        const channelSize =
          op === "Conv" ? shape.slice(2).reduce((product, size) => product * size, 1) : 1;
        const channels = sum.total.length;
        for (let index = 0; index < data.length; index++) {
          const channel = Math.floor(index / channelSize) % channels;
          sum.total[channel] = (sum.total[channel] ?? 0) + (data[index] ?? 0);
        }
        sum.count += data.length / channels;
      }
    },
  );
  return sums.map(({ total, count }) => total.map((sum) => (count === 0 ? 0 : sum / count)));
}
