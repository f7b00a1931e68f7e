// Unstructured pruning: the smallest weights become 0. Han et al. 2015, "Learning both Weights and Connections for Efficient
// Neural Networks". The file has as many bytes as before and compresses better, which is what counts where it crosses a
// wire; ONNX Runtime has no sparse kernels, so it is not faster.

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxNode, labelOf } from "../onnx/nodes.ts";
import type { TensorProto } from "../onnx/proto/onnx_pb.js";
import { elementTypeOf, floatsOf, replaceData } from "../onnx/tensors.ts";
import { valuesOf } from "../onnx/values.ts";
import { countOf, ratiosOf, type Ratios } from "./ratios.ts";
import { storedTensorOf } from "./trace.ts";

/**
 * The ratio is of the weights, those that are 0 already among them. `model` has one threshold for all layers: of a weight's
 * share in the squares of its layer's weights that are left, since by bare size a layer of small weights would lose all of
 * them. Lee et al. 2021, "Layer-Adaptive Sparsity for the Magnitude-Based Pruning" (LAMP).
 */
export type MagnitudeOptions =
  | { readonly scope?: "layer"; readonly ratio: Ratios }
  | { readonly scope: "model"; readonly ratio: number };

export interface SparseLayer {
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
export function pruneMagnitudes(model: Model, options: MagnitudeOptions): SparseLayer[] {
  const layers = weightedLayers(model).map((layer) => ({
    ...layer,
    values: floatsOf(layer.tensor),
  }));
  const ratios = ratiosOf(
    layers.map(({ layer }) => layer),
    options.ratio,
  );
  const counts =
    options.scope === "model"
      ? countsByShare(
          layers.map(({ values }) => values),
          options.ratio,
        )
      : layers.map(({ layer, values }) => countOf(values.length, ratios.get(layer) ?? 0));
  return layers.map(({ layer, op, tensor, values }, position) => {
    const zerosBefore = zerosOf(values);
    dropSmallest(values, counts[position] ?? 0);
    replaceData(tensor, "float", values);
    return { layer, op, weights: values.length, zerosBefore, zerosAfter: zerosOf(values) };
  });
}

/** The layers that it prunes, by name. @throws nothing_to_prune */
export const prunableLayers = (model: Model): string[] =>
  weightedLayers(model).map(({ layer }) => layer);

/** Bytes of the weights that would not be 0, as if none of them were yet. @throws nothing_to_prune, invalid_pruning */
export function sizeOfNonZeros(model: Model, ratio: Ratios): number {
  const layers = weightedLayers(model).map(({ layer, tensor }) => ({
    layer,
    weights: tensor.dims.reduce((product, size) => product * Number(size), 1),
  }));
  const ratios = ratiosOf(
    layers.map(({ layer }) => layer),
    ratio,
  );
  return layers.reduce(
    (sum, { layer, weights }) => sum + 4 * (weights - countOf(weights, ratios.get(layer) ?? 0)),
    0,
  );
}

interface WeightedLayer {
  readonly layer: string;
  readonly op: string;
  readonly tensor: TensorProto;
}

/** Weights that several layers share are the first one's. */
function weightedLayers(model: Model): WeightedLayer[] {
  const table = valuesOf(model);
  const seen = new Set<TensorProto>();
  const layers = table.nodes.flatMap((node): WeightedLayer[] => {
    if (!isOnnxNode(node, "Conv", "ConvTranspose", "Gemm", "MatMul")) return [];
    const tensors = table
      .inputsOf(node)
      .slice(0, 2)
      .flatMap((value) => storedTensorOf(value) ?? []);
    const tensor = tensors.find(
      ({ dataType, dims }) => elementTypeOf(dataType) === "float" && dims.length > 1,
    );
    if (tensor === undefined || seen.has(tensor)) return [];
    seen.add(tensor);
    return [{ layer: labelOf(node), op: node.opType, tensor }];
  });
  if (layers.length === 0)
    throw toolchainErrors.nothingToPrune([
      "no convolution or matrix product has constant FP32 weights",
    ]);
  return layers;
}

/** How many weights of each layer are among those with the smallest shares. */
function countsByShare(layers: readonly Float32Array[], ratio: number): number[] {
  const shares = layers.map(sharesOf);
  const all = new Float32Array(shares.reduce((total, { length }) => total + length, 0));
  let offset = 0;
  for (const one of shares) {
    all.set(one, offset);
    offset += one.length;
  }
  all.sort();
  const count = countOf(all.length, ratio);
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
function sharesOf(values: Float32Array): Float32Array {
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
function dropSmallest(values: Float32Array, count: number): void {
  const sizes = values.map(Math.abs).sort();
  const threshold = sizes[count] ?? Number.POSITIVE_INFINITY;
  let ties = count - sizes.indexOf(threshold);
  for (let index = 0; index < values.length; index++) {
    const size = Math.abs(values[index] ?? 0);
    if (size < threshold || (size === threshold && ties-- > 0)) values[index] = 0;
  }
}

const zerosOf = (values: Float32Array): number =>
  values.reduce((count, value) => count + (value === 0 ? 1 : 0), 0);
