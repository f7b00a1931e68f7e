// Rounded weights and cut-off activations move the mean of what a layer gives; a bias takes that back.
// Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.2, the empirical form.

import type { Runtime } from "../../runtime/runtime.ts";
import { FreshNames } from "../onnx/edit.ts";
import { type Model, readModel, writeModel } from "../onnx/model-file.ts";
import { isOnnxNode, removeAttribute } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { makeTensor } from "../onnx/tensors.ts";
import type { Value, ValueTable } from "../onnx/values.ts";
import { removeUnused } from "../passes/remove-unused.ts";
import type { Layer } from "./layers.ts";
import { observe, type Samples } from "./observe.ts";
import { planStatic } from "./plan.ts";
import { prepare, quantiseStatic, type Ranges, type StaticOptions } from "./static.ts";
import { floatTensorOf } from "./weights.ts";

export interface CorrectedBias {
  readonly node: string;
  /** By how much the mean of a channel was moved, at most. */
  readonly largestShift: number;
}

/**
 * Changes the biases of a graph in FP32, so that it is right once it is quantised with the same ranges and options. Layers are
 * corrected one by one, each with those before it quantised and corrected: as many runs over the samples as there are layers.
 * @param onLayer is told how many layers are done
 * @returns what was corrected; a MatMul that nothing is added to cannot be
 * @throws not_quantisable, session_failed
 */
export async function correctBiases(
  runtime: Runtime,
  model: Model,
  ranges: Ranges,
  samples: Samples,
  options: StaticOptions = {},
  onLayer: (done: number, of: number) => void = () => {},
): Promise<CorrectedBias[]> {
  prepare(model);
  const { layers, table } = planStatic(model, options);
  const corrected: CorrectedBias[] = [];
  const targets = layers.flatMap((layer) => {
    const bias = biasOf(table, layer);
    return bias === undefined ? [] : [{ layer, bias }];
  });
  const wanted = await channelMeans(
    runtime,
    model,
    targets.map(({ layer }) => layer),
    samples,
  );
  for (const [position, { layer, bias }] of targets.entries()) {
    const quantised = readModel(writeModel(model));
    quantiseStatic(quantised, ranges, options);
    const output =
      quantised.graph.node.find(({ name }) => name === layer.node.name)?.output[0] ?? layer.y.name;
    const [found] = await channelMeans(
      runtime,
      quantised,
      [{ ...layer, y: { ...layer.y, name: output } }],
      samples,
    );
    const shifts = Float64Array.from(
      found ?? [],
      (mean, channel) => mean - (wanted[position]?.[channel] ?? mean),
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

interface Bias {
  readonly values: Float32Array;
  readonly node: NodeProto;
  /** Of the node's inputs. */
  readonly position: number;
}

function biasOf(table: ValueTable, { node, op, y, weights, bias }: Layer): Bias | undefined {
  const channels = weights.dims[weights.axis] ?? 0;
  if (op !== "MatMul") return { values: bias ?? new Float32Array(channels), node, position: 2 };
  const [use, ...others] = y.uses;
  if (use?.kind !== "node" || others.length > 0 || !isOnnxNode(use.node, "Add")) return undefined;
  const position = 1 - use.position;
  const added = floatTensorOf(table.inputsOf(use.node)[position]);
  return added?.values.length === channels && added.dims.at(-1) === channels
    ? { values: added.values, node: use.node, position }
    : undefined;
}

function setBias(
  model: Model,
  { node: layer }: Layer,
  { node, position }: Bias,
  values: Float32Array,
): void {
  const name = new FreshNames(model).take(`${layer.name}_corrected_bias`);
  model.graph.initializer.push(makeTensor(name, "float", [BigInt(values.length)], values));
  node.input[position] = name;
  if (isOnnxNode(node, "Gemm")) removeAttribute(node, "beta"); // it is in the values
}

/** Of the layers' results, before anything is added to them by other nodes. */
async function channelMeans(
  runtime: Runtime,
  model: Model,
  layers: readonly (Pick<Layer, "op" | "weights"> & { readonly y: Pick<Value, "name"> })[],
  samples: Samples,
): Promise<Float64Array[]> {
  const sums = layers.map(({ weights }) => ({
    total: new Float64Array(weights.dims[weights.axis] ?? 0),
    count: 0,
  }));
  await observe(
    runtime,
    model,
    layers.map(({ y }) => y.name),
    samples,
    (observed) => {
      for (const [position, { op, y }] of layers.entries()) {
        const [sum, value] = [sums[position], observed.get(y.name)];
        if (sum === undefined || value === undefined) continue;
        const { data, shape } = value;
        const inner =
          op === "Conv" ? shape.slice(2).reduce((product, size) => product * size, 1) : 1;
        const channels = sum.total.length;
        for (let index = 0; index < data.length; index++) {
          const channel = Math.floor(index / inner) % channels;
          sum.total[channel] = (sum.total[channel] ?? 0) + (data[index] ?? 0);
        }
        sum.count += data.length / channels;
      }
    },
  );
  return sums.map(({ total, count }) => total.map((sum) => (count === 0 ? 0 : sum / count)));
}
