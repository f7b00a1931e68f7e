// The layers of a graph that integers can compute: convolutions and matrix products with constant FP32 weights, and tables
// of embeddings.

import { toolchainErrors } from "../errors.ts";
import { UniqueNames } from "../onnx/graph-edits.ts";
import type { Model } from "../onnx/model-file.ts";
import { findAttribute, isOnnxOp, displayNameOf } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import type { Value, ValueTable } from "../onnx/value-table.ts";
import { traverseGraphs } from "../onnx/graph-traversal.ts";
import { type FloatTensor, readFloatTensor } from "./quantize-weights.ts";

export interface QuantizableLayer {
  readonly node: NodeProto;
  readonly op: "Conv" | "MatMul" | "Gemm";
  /** What is multiplied by the weights. */
  readonly x: Value;
  readonly y: Value;
  /** As they are used: a Gemm's alpha and beta are in them. */
  readonly weights: FloatTensor & {
    readonly value: Value;
    /** Of the output channels. */
    readonly axis: number;
  };
  /** One number for each output channel; undefined where the node adds none. */
  readonly bias: Float32Array | undefined;
}

export interface EmbeddingTable {
  readonly node: NodeProto;
  readonly y: Value;
  /** [rows, columns] */
  readonly weights: FloatTensor & { readonly value: Value };
}

/** A table with fewer numbers is not worth its rounding. */
const MIN_TABLE_SIZE = 1_024;

/** Gives every node a name of its own, by which it is known in options and reports. */
export function assignNodeNames(model: Model): void {
  const names = new UniqueNames(model);
  const seen = new Set<string>();
  for (const { node } of traverseGraphs(model.graph)) {
    for (const one of node) {
      if (one.name === "" || seen.has(one.name))
        one.name = names.reserve(`${one.opType}_${displayNameOf(one)}`);
      seen.add(one.name);
    }
  }
}

/** @returns what is in the way, where it is a Conv, MatMul or Gemm that cannot be quantised; undefined for other operators */
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

const NOT_CONSTANT = "its weights are no FP32 constant";

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
    return { reason: "its bias is no FP32 constant" };
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
          : "its weights are on the left",
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
    return { reason: "what it adds is no constant with one number for each column" };
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
      values: alpha === 1 ? weights.values : weights.values.map((one) => alpha * one),
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

/** Which layers the caller wants in integers. */
export interface LayerSelection {
  /** Operators, or names of nodes, that stay in FP32. */
  readonly keep?: readonly string[] | undefined;
  /** Names of the only layers that do not. */
  readonly only?: readonly string[] | undefined;
}

/** @throws not_quantizable for what is to be kept, and is not there */
export function validateSelection({ graph }: Model, { keep = [] }: LayerSelection): void {
  const unknown = keep.find(
    (wanted) => !graph.node.some(({ name, opType }) => wanted === name || wanted === opType),
  );
  if (unknown !== undefined)
    throw toolchainErrors.notQuantizable(
      `${JSON.stringify(unknown)}, to be kept, is neither an operator nor a node in it`,
      "Correct or leave out --keep.",
    );
}

/** @returns why the caller wants it in FP32 */
export function findExclusionReason(
  { name, opType }: NodeProto,
  { keep = [], only }: LayerSelection,
): string | undefined {
  if (keep.includes(name) || keep.includes(opType)) return "as asked for";
  return only === undefined || only.includes(name) ? undefined : "not the layer in question";
}
