// Computes a graph's cost by layer: parameters, bytes, and multiply-accumulate operations (MACs) of
// one request.

import { readConstantTensor } from "../onnx/constants.ts";
import { readIntAttribute } from "../onnx/graph-queries.ts";
import { subgraphsOf } from "../onnx/graph-traversal.ts";
import type { Model } from "../onnx/model-file.ts";
import { domainOf, displayNameOf } from "../onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { byteSizeOf, elementTypeOf, readFloats } from "../onnx/tensor-data.ts";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";
import type { TensorShapes } from "./measure-shapes.ts";

export interface LayerCost {
  readonly layer: string;
  readonly op: string;
  /**
   * Number of values in the layer's constants, without constants that an earlier layer reads too.
   */
  readonly parameters: number;
  readonly bytes: number;
  /** Number of FP32 parameters that are 0. */
  readonly zeros: number;
  /**
   * MACs of convolutions and matrix products, 0 for other simple operators. Null if shapes are
   * unknown, and for composite operators such as recurrent ones.
   */
  readonly macs: number | null;
}

/** Returns the layers with parameters or MACs, in the order of the graph. */
export function computeLayerCosts(model: Model, shapes: TensorShapes): LayerCost[] {
  const table = buildValueTable(model);
  const dimsOf = createDimsLookup(model, shapes);
  const seen = new Set<Value>();
  return table.nodes.flatMap((node): LayerCost[] => {
    const tensors = collectParameters(table, node, seen);
    const macs = countMacs(table, node, dimsOf);
    const sum = (measure: (tensor: TensorProto) => number) =>
      tensors.reduce((total, tensor) => total + measure(tensor), 0);
    return tensors.length === 0 && macs === 0
      ? []
      : [
          {
            layer: displayNameOf(node),
            op: node.opType,
            parameters: sum(countElements),
            bytes: sum((tensor) => Number(byteSizeOf(tensor) ?? 0n)),
            zeros: sum(countZeros),
            macs,
          },
        ];
  });
}

export interface GraphCost {
  readonly parameters: number;
  readonly bytes: number;
  /** Sum of the known MACs. */
  readonly macs: number;
}

export function sumLayerCosts(layers: readonly LayerCost[]): GraphCost {
  const total = (measure: (layer: LayerCost) => number) =>
    layers.reduce((sum, layer) => sum + measure(layer), 0);
  return {
    parameters: total(({ parameters }) => parameters),
    bytes: total(({ bytes }) => bytes),
    macs: total(({ macs }) => macs ?? 0),
  };
}

export type DimsLookup = (value: Value | undefined) => readonly number[] | undefined;

/**
 * Computes the cost that the graph would have with other tensor sizes, for example without some
 * channels.
 */
export function computeGraphCost(table: ValueTable, dimsOf: DimsLookup): GraphCost {
  const seen = new Set<Value>();
  let [parameters, bytes, macs] = [0, 0, 0];
  for (const node of table.nodes) {
    for (const value of collectConstants(table, node, seen)) {
      const tensor = readConstantTensor(value);
      const [before, after] = [
        tensor === undefined ? 0 : countElements(tensor),
        product(dimsOf(value) ?? []),
      ];
      parameters += after;
      bytes += before === 0 ? 0 : (Number((tensor && byteSizeOf(tensor)) ?? 0n) / before) * after;
    }
    macs += countMacs(table, node, dimsOf) ?? 0;
  }
  return { parameters, bytes, macs };
}

export function createDimsLookup({ graph }: Model, shapes: TensorShapes): DimsLookup {
  return (value) =>
    value &&
    (readConstantTensor(value)?.dims.map(Number) ??
      (value.graph === graph ? shapes.get(value.name) : undefined));
}

const product = (sizes: readonly number[]): number =>
  sizes.reduce((total, size) => total * size, 1);
const countElements = ({ dims }: TensorProto): number => product(dims.map(Number));
const countZeros = (tensor: TensorProto): number =>
  elementTypeOf(tensor.dataType) === "float"
    ? readFloats(tensor).reduce((count, value) => count + (value === 0 ? 1 : 0), 0)
    : 0;

const collectParameters = (table: ValueTable, node: NodeProto, seen: Set<Value>): TensorProto[] =>
  collectConstants(table, node, seen).flatMap((value) => readConstantTensor(value) ?? []);

/** Collects parameters. Constants with sizes or axes are not parameters. */
function collectConstants(table: ValueTable, node: NodeProto, seen: Set<Value>): Value[] {
  return table.inputsOf(node).flatMap((value) => {
    if (
      value === undefined ||
      seen.has(value) ||
      readConstantTensor(value) === undefined ||
      ["int64", "bool", "string"].includes(value.type ?? "")
    )
      return [];
    seen.add(value);
    return [value];
  });
}

/** Position of a convolution's weights among its inputs. */
const CONVOLUTIONS = new Map([
  ["Conv", 1],
  ["FusedConv", 1],
  ["ConvInteger", 1],
  ["QLinearConv", 3],
]);
/** Positions of a matrix product's factors among its inputs. */
const MATRIX_PRODUCTS = new Map([
  ["Gemm", [0, 1]],
  ["MatMul", [0, 1]],
  ["FusedGemm", [0, 1]],
  ["FusedMatMul", [0, 1]],
  ["MatMulInteger", [0, 1]],
  ["QLinearMatMul", [0, 3]],
]);
const OPS_WITH_UNKNOWN_MACS = new Set([
  "Attention",
  "DeformConv",
  "Einsum",
  "GRU",
  "GroupQueryAttention",
  "LSTM",
  "MatMulNBits",
  "MultiHeadAttention",
  "QAttention",
  "RNN",
]);

function countMacs(table: ValueTable, node: NodeProto, dimsOf: DimsLookup): number | null {
  const inputs = table.inputsOf(node);
  const [outputDims, firstDims] = [dimsOf(table.outputsOf(node)[0]), dimsOf(inputs[0])];
  const weightsPosition = CONVOLUTIONS.get(node.opType);
  const [leftPosition] = MATRIX_PRODUCTS.get(node.opType) ?? [];
  if (weightsPosition !== undefined)
    return countFilterMacs(outputDims, dimsOf(inputs[weightsPosition]));
  if (node.opType === "ConvTranspose") return countFilterMacs(firstDims, dimsOf(inputs[1]));
  if (leftPosition !== undefined) {
    const dims = dimsOf(inputs[leftPosition]);
    const inner = readIntAttribute(node, "transA", 0) === 1 ? dims?.at(-2) : dims?.at(-1);
    return outputDims === undefined || inner === undefined ? null : product(outputDims) * inner;
  }
  const isKnown =
    domainOf(node) === "" &&
    !OPS_WITH_UNKNOWN_MACS.has(node.opType) &&
    subgraphsOf(node).length === 0;
  return isKnown || node.opType.startsWith("QLinear") ? 0 : null;
}

/** Multiplies the number of positions by all dimensions of the weights except the first. */
const countFilterMacs = (
  positions: readonly number[] | undefined,
  weights: readonly number[] | undefined,
): number | null =>
  positions === undefined || weights === undefined
    ? null
    : product(positions) * product(weights.slice(1));
