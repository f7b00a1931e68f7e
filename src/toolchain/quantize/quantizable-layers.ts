// Finds the layers of a graph that integers can compute: convolutions and matrix products with
// constant FP32 weights, and embedding tables.

import { toolchainErrors } from "../errors.ts";
import { UniqueNames } from "../onnx/graph-edits.ts";
import { traverseGraphs } from "../onnx/graph-traversal.ts";
import type { Model } from "../onnx/model-file.ts";
import { findAttribute, isOnnxOp, displayNameOf } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import type { Value, ValueTable } from "../onnx/value-table.ts";
import { type FloatTensor, readFloatTensor } from "./quantize-weights.ts";

export interface QuantizableLayer {
  readonly node: NodeProto;
  readonly op: "Conv" | "MatMul" | "Gemm";
  /** The operand that the weights multiply. */
  readonly x: Value;
  readonly y: Value;
  /** Effective weights, including a Gemm's alpha; its beta is included in the bias. */
  readonly weights: FloatTensor & {
    readonly value: Value;
    /** Dimension of the output channels. */
    readonly axis: number;
  };
  /** One value per output channel; undefined if the node adds no bias. */
  readonly bias: Float32Array | undefined;
}

export interface EmbeddingTable {
  readonly node: NodeProto;
  readonly y: Value;
  /** Table with the shape [rows, columns]. */
  readonly weights: FloatTensor & { readonly value: Value };
}

/** Smaller tables save too little memory to justify the rounding. */
const MIN_TABLE_SIZE = 1_024;

/** Gives every node a unique name, which identifies it in options and reports. */
export function assignNodeNames(model: Model): void {
  const names = new UniqueNames(model);
  const seen = new Set<string>();
  for (const { node } of traverseGraphs(model.graph)) {
    for (const current of node) {
      if (current.name === "" || seen.has(current.name))
        current.name = names.reserve(`${current.opType}_${displayNameOf(current)}`);
      seen.add(current.name);
    }
  }
}

/**
 * @returns the reason if a Conv, MatMul or Gemm cannot be quantized; undefined for other operators
 */
export function findQuantizableLayer(
  table: ValueTable,
  node: NodeProto,
): QuantizableLayer | { readonly reason: string } | undefined {
  if (isOnnxOp(node, "Conv")) return readConvolution(table, node);
  if (isOnnxOp(node, "MatMul")) return readMatMul(table, node);
  return isOnnxOp(node, "Gemm") ? readGemm(table, node) : undefined;
}

export function findEmbeddingTable(table: ValueTable, node: NodeProto): EmbeddingTable | undefined {
  if (!isOnnxOp(node, "Gather") || Number(findAttribute(node, "axis")?.i ?? 0n) !== 0)
    return undefined;
  const [value] = table.inputsOf(node);
  const [y] = table.outputsOf(node);
  const tensor = readFloatTensor(value);
  if (
    value === undefined ||
    y === undefined ||
    tensor?.dims.length !== 2 ||
    tensor.values.length < MIN_TABLE_SIZE
  )
    return undefined;
  return { node, y, weights: { ...tensor, value } };
}

const NOT_CONSTANT = "its weights are not an FP32 constant";

function readOperands(table: ValueTable, node: NodeProto) {
  const [x, w, b] = table.inputsOf(node);
  const [y] = table.outputsOf(node);
  const weights = readFloatTensor(w);
  if (x === undefined || w === undefined || y === undefined || weights === undefined)
    return undefined;
  return { node, x, y, b, weights: { ...weights, value: w } };
}

function readConvolution(
  table: ValueTable,
  node: NodeProto,
): QuantizableLayer | { readonly reason: string } {
  const operands = readOperands(table, node);
  if (operands === undefined) return { reason: NOT_CONSTANT };
  const { b, weights, x, y } = operands;
  const bias = b && readFloatTensor(b)?.values;
  if (b !== undefined && bias?.length !== weights.dims[0])
    return { reason: "its bias is not an FP32 constant" };
  return { node, op: "Conv", x, y, weights: { ...weights, axis: 0 }, bias };
}

function readMatMul(
  table: ValueTable,
  node: NodeProto,
): QuantizableLayer | { readonly reason: string } {
  const operands = readOperands(table, node);
  if (operands === undefined)
    return {
      reason:
        readFloatTensor(table.inputsOf(node)[0]) === undefined
          ? "both its operands are activations"
          : "its weights are the left operand",
    };
  const { weights, x, y } = operands;
  if (weights.dims.length !== 2)
    return { reason: `its weights have ${weights.dims.length} dimensions` };
  return { node, op: "MatMul", x, y, weights: { ...weights, axis: 1 }, bias: undefined };
}

function readGemm(
  table: ValueTable,
  node: NodeProto,
): QuantizableLayer | { readonly reason: string } {
  const operands = readOperands(table, node);
  if (operands === undefined) return { reason: NOT_CONSTANT };
  const { b, weights, x, y } = operands;
  const [alpha, beta] = ["alpha", "beta"].map((name) => findAttribute(node, name)?.f ?? 1) as [
    number,
    number,
  ];
  const axis = findAttribute(node, "transB")?.i ? 0 : 1;
  const channels = weights.dims[axis] ?? 0;
  const added = b && readFloatTensor(b);
  const perChannel =
    added !== undefined &&
    (added.values.length === channels ? added.dims.at(-1) === channels : added.values.length === 1);
  if (b !== undefined && !perChannel)
    return { reason: "its summand is not a constant with one number per column" };
  const bias =
    added &&
    Float32Array.from(
      { length: channels },
      (_, channel) => beta * (added.values[added.values.length === 1 ? 0 : channel] ?? 0),
    );
  return {
    node,
    op: "Gemm",
    x,
    y,
    weights: {
      ...weights,
      values: alpha === 1 ? weights.values : weights.values.map((weight) => alpha * weight),
      axis,
    },
    bias,
  };
}

export interface Fp32Layer {
  readonly node: string;
  readonly op: string;
  readonly reason: string;
}

/** The caller's selection of layers to quantize. */
export interface LayerSelection {
  /** Operators, or names of nodes, that remain in FP32. */
  readonly keep?: readonly string[] | undefined;
  /** Names of the only layers to quantize. */
  readonly only?: readonly string[] | undefined;
}

/** @throws not_quantizable if an entry of `keep` does not exist */
export function validateSelection({ graph }: Model, { keep = [] }: LayerSelection): void {
  const unknown = keep.find(
    (excluded) => !graph.node.some(({ name, opType }) => excluded === name || excluded === opType),
  );
  if (unknown !== undefined)
    throw toolchainErrors.notQuantizable(
      `${JSON.stringify(unknown)} in \`keep\` is neither an operator nor a node of the graph`,
      "Correct or omit --keep.",
    );
}

/** @returns the reason that the caller excluded the layer, if it did */
export function findExclusionReason(
  { name, opType }: NodeProto,
  { keep = [], only }: LayerSelection,
): string | undefined {
  if (keep.includes(name) || keep.includes(opType)) return "kept on request";
  return only === undefined || only.includes(name) ? undefined : "not selected";
}
