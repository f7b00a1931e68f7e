// What a graph costs by layer: parameters, bytes, and multiply-accumulate operations (MACs) of one request.

import { readConstantTensor } from "../onnx/constants.ts";
import { readIntAttribute } from "../onnx/graph-queries.ts";
import type { Model } from "../onnx/model-file.ts";
import { domainOf, displayNameOf } from "../onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { byteSizeOf, elementTypeOf, readFloats } from "../onnx/tensor-data.ts";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";
import { subgraphsOf } from "../onnx/graph-traversal.ts";
import type { TensorShapes } from "./measure-shapes.ts";

export interface LayerCost {
  readonly layer: string;
  readonly op: string;
  /** Numbers in the constants that it reads, those of constants that an earlier layer reads too left out. */
  readonly parameters: number;
  readonly bytes: number;
  /** Parameters that are 0, of FP32 ones. */
  readonly zeros: number;
  /** Of convolutions and products of matrices; 0 for other operators. Null where shapes are not known, and of operators with more inside, such as recurrent ones. */
  readonly macs: number | null;
}

/** Layers that have parameters or MACs, in the graph's order. */
export function computeLayerCosts(model: Model, shapes: TensorShapes): LayerCost[] {
  const table = buildValueTable(model);
  const dimsOf = createDimsLookup(model, shapes);
  const seen = new Set<Value>();
  return table.nodes.flatMap((node): LayerCost[] => {
    const tensors = collectParameters(table, node, seen);
    const macs = countMacs(table, node, dimsOf);
    const sum = (of: (tensor: TensorProto) => number) =>
      tensors.reduce((total, tensor) => total + of(tensor), 0);
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
  /** Of what is known of it. */
  readonly macs: number;
}

export function sumLayerCosts(layers: readonly LayerCost[]): GraphCost {
  const total = (of: (layer: LayerCost) => number) =>
    layers.reduce((sum, layer) => sum + of(layer), 0);
  return {
    parameters: total(({ parameters }) => parameters),
    bytes: total(({ bytes }) => bytes),
    macs: total(({ macs }) => macs ?? 0),
  };
}

export type DimsLookup = (value: Value | undefined) => readonly number[] | undefined;

/** As `sumLayerCosts`, of a graph whose tensors have other sizes: what it would cost without some channels. */
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

/** Sizes and axes are no parameters. */
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

/** Where a convolution's weights are among its inputs, and a matrix product's two factors. */
const CONVOLUTIONS = new Map([
  ["Conv", 1],
  ["FusedConv", 1],
  ["ConvInteger", 1],
  ["QLinearConv", 3],
]);
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
  const [out, first] = [dimsOf(table.outputsOf(node)[0]), dimsOf(inputs[0])];
  const weightsAt = CONVOLUTIONS.get(node.opType);
  const [left] = MATRIX_PRODUCTS.get(node.opType) ?? [];
  if (weightsAt !== undefined) return countFilterMacs(out, dimsOf(inputs[weightsAt]));
  if (node.opType === "ConvTranspose") return countFilterMacs(first, dimsOf(inputs[1]));
  if (left !== undefined) {
    const dims = dimsOf(inputs[left]);
    const inner = readIntAttribute(node, "transA", 0) === 1 ? dims?.at(-2) : dims?.at(-1);
    return out === undefined || inner === undefined ? null : product(out) * inner;
  }
  const isKnown =
    domainOf(node) === "" &&
    !OPS_WITH_UNKNOWN_MACS.has(node.opType) &&
    subgraphsOf(node).length === 0;
  return isKnown || node.opType.startsWith("QLinear") ? 0 : null;
}

/** Each position is multiplied by all but the first dimension of the weights. */
const countFilterMacs = (
  positions: readonly number[] | undefined,
  weights: readonly number[] | undefined,
): number | null =>
  positions === undefined || weights === undefined
    ? null
    : product(positions) * product(weights.slice(1));
