// What a graph costs by layer: parameters, bytes, and multiply-accumulate operations (MACs) of one request.

import { constantTensorOf } from "../onnx/constants.ts";
import { intOf } from "../onnx/find.ts";
import type { Model } from "../onnx/model-file.ts";
import { domainOf, labelOf } from "../onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { byteSizeOf, elementTypeOf, floatsOf } from "../onnx/tensors.ts";
import { type Value, type ValueTable, valuesOf } from "../onnx/values.ts";
import { bodiesOf } from "../onnx/walk.ts";
import type { Shapes } from "./shapes.ts";

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
export function costByLayer(model: Model, shapes: Shapes): LayerCost[] {
  const table = valuesOf(model);
  const dimsOf = dimsIn(model, shapes);
  const seen = new Set<Value>();
  return table.nodes.flatMap((node): LayerCost[] => {
    const tensors = parametersOf(table, node, seen);
    const macs = macsOf(table, node, dimsOf);
    const sum = (of: (tensor: TensorProto) => number) =>
      tensors.reduce((total, tensor) => total + of(tensor), 0);
    return tensors.length === 0 && macs === 0
      ? []
      : [
          {
            layer: labelOf(node),
            op: node.opType,
            parameters: sum(elementsOf),
            bytes: sum((tensor) => Number(byteSizeOf(tensor) ?? 0n)),
            zeros: sum(zerosOf),
            macs,
          },
        ];
  });
}

export interface Cost {
  readonly parameters: number;
  readonly bytes: number;
  /** Of what is known of it. */
  readonly macs: number;
}

export function totalCost(layers: readonly LayerCost[]): Cost {
  const total = (of: (layer: LayerCost) => number) =>
    layers.reduce((sum, layer) => sum + of(layer), 0);
  return {
    parameters: total(({ parameters }) => parameters),
    bytes: total(({ bytes }) => bytes),
    macs: total(({ macs }) => macs ?? 0),
  };
}

export type DimsOf = (value: Value | undefined) => readonly number[] | undefined;

/** As `totalCost`, of a graph whose tensors have other sizes: what it would cost without some channels. */
export function costWith(table: ValueTable, dimsOf: DimsOf): Cost {
  const seen = new Set<Value>();
  let [parameters, bytes, macs] = [0, 0, 0];
  for (const node of table.nodes) {
    for (const value of constantsOf(table, node, seen)) {
      const tensor = constantTensorOf(value);
      const [before, after] = [
        tensor === undefined ? 0 : elementsOf(tensor),
        product(dimsOf(value) ?? []),
      ];
      parameters += after;
      bytes += before === 0 ? 0 : (Number((tensor && byteSizeOf(tensor)) ?? 0n) / before) * after;
    }
    macs += macsOf(table, node, dimsOf) ?? 0;
  }
  return { parameters, bytes, macs };
}

export function dimsIn({ graph }: Model, shapes: Shapes): DimsOf {
  return (value) =>
    value &&
    (constantTensorOf(value)?.dims.map(Number) ??
      (value.graph === graph ? shapes.get(value.name) : undefined));
}

const product = (sizes: readonly number[]): number =>
  sizes.reduce((total, size) => total * size, 1);
const elementsOf = ({ dims }: TensorProto): number => product(dims.map(Number));
const zerosOf = (tensor: TensorProto): number =>
  elementTypeOf(tensor.dataType) === "float"
    ? floatsOf(tensor).reduce((count, value) => count + (value === 0 ? 1 : 0), 0)
    : 0;

const parametersOf = (table: ValueTable, node: NodeProto, seen: Set<Value>): TensorProto[] =>
  constantsOf(table, node, seen).flatMap((value) => constantTensorOf(value) ?? []);

/** Sizes and axes are no parameters. */
function constantsOf(table: ValueTable, node: NodeProto, seen: Set<Value>): Value[] {
  return table.inputsOf(node).flatMap((value) => {
    if (
      value === undefined ||
      seen.has(value) ||
      constantTensorOf(value) === undefined ||
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
const PRODUCTS = new Map([
  ["Gemm", [0, 1]],
  ["MatMul", [0, 1]],
  ["FusedGemm", [0, 1]],
  ["FusedMatMul", [0, 1]],
  ["MatMulInteger", [0, 1]],
  ["QLinearMatMul", [0, 3]],
]);
const UNCOUNTED = new Set([
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

function macsOf(table: ValueTable, node: NodeProto, dimsOf: DimsOf): number | null {
  const inputs = table.inputsOf(node);
  const [out, first] = [dimsOf(table.outputsOf(node)[0]), dimsOf(inputs[0])];
  const weightsAt = CONVOLUTIONS.get(node.opType);
  const [left] = PRODUCTS.get(node.opType) ?? [];
  if (weightsAt !== undefined) return timesFilter(out, dimsOf(inputs[weightsAt]));
  if (node.opType === "ConvTranspose") return timesFilter(first, dimsOf(inputs[1]));
  if (left !== undefined) {
    const dims = dimsOf(inputs[left]);
    const inner = intOf(node, "transA", 0) === 1 ? dims?.at(-2) : dims?.at(-1);
    return out === undefined || inner === undefined ? null : product(out) * inner;
  }
  const isKnown =
    domainOf(node) === "" && !UNCOUNTED.has(node.opType) && bodiesOf(node).length === 0;
  return isKnown || node.opType.startsWith("QLinear") ? 0 : null;
}

/** Each position is multiplied by all but the first dimension of the weights. */
const timesFilter = (
  positions: readonly number[] | undefined,
  weights: readonly number[] | undefined,
): number | null =>
  positions === undefined || weights === undefined
    ? null
    : product(positions) * product(weights.slice(1));
