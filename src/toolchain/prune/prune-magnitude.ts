// Unstructured pruning: the smallest weights become 0. Han et al. 2015, "Learning both Weights and Connections for Efficient
// Neural Networks". The file has as many bytes as before and compresses better, which is what counts where it crosses a
// wire; ONNX Runtime has no sparse kernels, so it is not faster.

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp, displayNameOf } from "../onnx/nodes.ts";
import type { TensorProto } from "../onnx/proto/onnx_pb.js";
import { elementTypeOf, readFloats, replaceTensorData } from "../onnx/tensor-data.ts";
import { buildValueTable } from "../onnx/value-table.ts";
import { countToPrune, resolveRatios, type PruningRatios } from "./ratios.ts";
import { editableTensorOf } from "./trace-channels.ts";

/**
 * The ratio is of the weights, those that are 0 already among them. `model` has one threshold for all layers: of a weight's
 * share in the squares of its layer's weights that are left, since by bare size a layer of small weights would lose all of
 * them. Lee et al. 2021, "Layer-Adaptive Sparsity for the Magnitude-Based Pruning" (LAMP).
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
 * Changes the weights of convolutions and matrix products in FP32; biases stay.
 * @throws nothing_to_prune if there are none, invalid_pruning
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

/** The layers that it prunes, by name. @throws nothing_to_prune */
export const listWeightedLayers = (model: Model): string[] =>
  findWeightedLayers(model).map(({ layer }) => layer);

/** Bytes of the weights that would not be 0, as if none of them were yet. @throws nothing_to_prune, invalid_pruning */
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

/** Weights that several layers share are the first one's. */
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

/** How many weights of each layer are among those with the smallest shares. */
function countByLampScore(layers: readonly Float32Array[], ratio: number): number[] {
  const shares = layers.map(computeLampScores);
  const all = new Float32Array(shares.reduce((total, { length }) => total + length, 0));
  let offset = 0;
  for (const one of shares) {
    all.set(one, offset);
    offset += one.length;
  }
  all.sort();
  const count = countToPrune(all.length, ratio);
  const threshold = all[count] ?? Number.POSITIVE_INFINITY;
  let ties = count - all.indexOf(threshold);
  return shares.map((one) => {
    const below = one.reduce((smaller, share) => smaller + (share < threshold ? 1 : 0), 0);
    const equal = one.reduce((same, share) => same + (share === threshold ? 1 : 0), 0);
    const taken = Math.min(ties, equal);
    ties -= taken;
    return below + taken;
  });
}

/** Of the weights by size, the smallest first: the shares grow with it, up to 1. */
function computeLampScores(values: Float32Array): Float32Array {
  const sizes = values.map(Math.abs).sort();
  let left = 0;
  for (let index = sizes.length - 1; index >= 0; index--) {
    const square = (sizes[index] ?? 0) ** 2;
    left += square;
    sizes[index] = left === 0 ? 0 : square / left;
  }
  return sizes;
}

/** Of equal ones, the first. */
function zeroSmallest(values: Float32Array, count: number): void {
  const sizes = values.map(Math.abs).sort();
  const threshold = sizes[count] ?? Number.POSITIVE_INFINITY;
  let ties = count - sizes.indexOf(threshold);
  for (let index = 0; index < values.length; index++) {
    const size = Math.abs(values[index] ?? 0);
    if (size < threshold || (size === threshold && ties-- > 0)) values[index] = 0;
  }
}

const countZeros = (values: Float32Array): number =>
  values.reduce((count, value) => count + (value === 0 ? 1 : 0), 0);
