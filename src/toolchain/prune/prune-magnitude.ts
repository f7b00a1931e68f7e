// Unstructured pruning: sets the smallest weights to 0 (Han et al. 2015, "Learning both Weights and
// Connections for Efficient Neural Networks"). The file keeps its size but compresses better, which
// shortens downloads. Inference is not faster, because ONNX Runtime has no sparse kernels.

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp, displayNameOf } from "../onnx/nodes.ts";
import type { TensorProto } from "../onnx/proto/onnx_pb.js";
import { elementTypeOf, readFloats, replaceTensorData } from "../onnx/tensor-data.ts";
import { buildValueTable } from "../onnx/value-table.ts";
import { countToPrune, resolveRatios, type PruningRatios } from "./ratios.ts";
import { editableTensorOf } from "./trace-channels.ts";

/**
 * The ratio is a share of all weights, including those that are 0 already. The scope `model`
 * applies one threshold to all layers. It compares a weight's square with the sum of the remaining
 * squares of its layer (Lee et al. 2021, "Layer-Adaptive Sparsity for the Magnitude-Based Pruning",
 * LAMP). A threshold on the magnitude alone would remove all weights of a layer with small ones.
 */
export type MagnitudePruningOptions =
  | { readonly scope?: "layer"; readonly ratio: PruningRatios }
  | { readonly scope: "model"; readonly ratio: number };

export interface SparsifiedLayer {
  readonly layer: string;
  readonly op: string;
  readonly weights: number;
  readonly zerosBefore: number;
  readonly zerosAfter: number;
}

/**
 * Prunes the FP32 weights of convolutions and matrix products in place, without biases.
 * @throws nothing_to_prune if there are no such weights, invalid_pruning
 */
export function pruneByMagnitude(
  model: Model,
  options: MagnitudePruningOptions,
): SparsifiedLayer[] {
  const layers = findWeightedLayers(model).map((layer) => ({
    ...layer,
    values: readFloats(layer.tensor),
  }));
  const ratios = resolveRatios(
    layers.map(({ layer }) => layer),
    options.ratio,
  );
  const counts =
    options.scope === "model"
      ? countByLampScore(
          layers.map(({ values }) => values),
          options.ratio,
        )
      : layers.map(({ layer, values }) => countToPrune(values.length, ratios.get(layer) ?? 0));
  return layers.map(({ layer, op, tensor, values }, position) => {
    const zerosBefore = countZeros(values);
    zeroSmallest(values, counts[position] ?? 0);
    replaceTensorData(tensor, "float", values);
    return { layer, op, weights: values.length, zerosBefore, zerosAfter: countZeros(values) };
  });
}

/** Names of the layers that `pruneByMagnitude` prunes. @throws nothing_to_prune */
export const listWeightedLayers = (model: Model): string[] =>
  findWeightedLayers(model).map(({ layer }) => layer);

/**
 * Computes the bytes of the weights that remain, as if no weight was 0 before.
 * @throws nothing_to_prune, invalid_pruning
 */
export function computeNonZeroBytes(model: Model, ratio: PruningRatios): number {
  const layers = findWeightedLayers(model).map(({ layer, tensor }) => ({
    layer,
    weights: tensor.dims.reduce((product, size) => product * Number(size), 1),
  }));
  const ratios = resolveRatios(
    layers.map(({ layer }) => layer),
    ratio,
  );
  return layers.reduce(
    (sum, { layer, weights }) =>
      sum + 4 * (weights - countToPrune(weights, ratios.get(layer) ?? 0)),
    0,
  );
}

interface WeightedLayer {
  readonly layer: string;
  readonly op: string;
  readonly tensor: TensorProto;
}

/** Assigns weights that several layers share to the first one. */
function findWeightedLayers(model: Model): WeightedLayer[] {
  const table = buildValueTable(model);
  const seen = new Set<TensorProto>();
  const layers = table.nodes.flatMap((node): WeightedLayer[] => {
    if (!isOnnxOp(node, "Conv", "ConvTranspose", "Gemm", "MatMul")) return [];
    const tensors = table
      .inputsOf(node)
      .slice(0, 2)
      .flatMap((value) => editableTensorOf(value) ?? []);
    const tensor = tensors.find(
      ({ dataType, dims }) => elementTypeOf(dataType) === "float" && dims.length > 1,
    );
    if (tensor === undefined || seen.has(tensor)) return [];
    seen.add(tensor);
    return [{ layer: displayNameOf(node), op: node.opType, tensor }];
  });
  if (layers.length === 0)
    throw toolchainErrors.nothingToPrune([
      "no convolution or matrix product has constant FP32 weights",
    ]);
  return layers;
}

/** Counts the weights of each layer that are among those with the smallest LAMP scores. */
function countByLampScore(layers: readonly Float32Array[], ratio: number): number[] {
  const layerScores = layers.map(computeLampScores);
  const sorted = new Float32Array(layerScores.reduce((total, { length }) => total + length, 0));
  let offset = 0;
  for (const scores of layerScores) {
    sorted.set(scores, offset);
    offset += scores.length;
  }
  sorted.sort();
  const count = countToPrune(sorted.length, ratio);
  const threshold = sorted[count] ?? Number.POSITIVE_INFINITY;
  let ties = count - sorted.indexOf(threshold);
  return layerScores.map((scores) => {
    const below = scores.reduce((total, score) => total + (score < threshold ? 1 : 0), 0);
    const equal = scores.reduce((total, score) => total + (score === threshold ? 1 : 0), 0);
    const taken = Math.min(ties, equal);
    ties -= taken;
    return below + taken;
  });
}

/** Computes the scores of a layer in ascending order; the largest weight has the score 1. */
function computeLampScores(values: Float32Array): Float32Array {
  const scores = values.map(Math.abs).sort();
  let remainingSquares = 0;
  for (let index = scores.length - 1; index >= 0; index--) {
    const square = (scores[index] ?? 0) ** 2;
    remainingSquares += square;
    scores[index] = remainingSquares === 0 ? 0 : square / remainingSquares;
  }
  return scores;
}

/** Sets the smallest weights to 0; among ties, the first ones. */
function zeroSmallest(values: Float32Array, count: number): void {
  const magnitudes = values.map(Math.abs).sort();
  const threshold = magnitudes[count] ?? Number.POSITIVE_INFINITY;
  let ties = count - magnitudes.indexOf(threshold);
  for (let index = 0; index < values.length; index++) {
    const magnitude = Math.abs(values[index] ?? 0);
    if (magnitude < threshold || (magnitude === threshold && ties-- > 0)) values[index] = 0;
  }
}

const countZeros = (values: Float32Array): number =>
  values.reduce((count, value) => count + (value === 0 ? 1 : 0), 0);
