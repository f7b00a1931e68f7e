// Converts quantized graphs back to FP32, for places where INT8 gains nothing, such as most GPUs.
// Weights become the real numbers that their INT8 values represent, and activations are no longer
// rounded to 8 bits. Their range is preserved, because it often implements an activation function
// (ReLU6 is the range from 0 to 6).
//
// Q and DQ: operators QuantizeLinear and DequantizeLinear,
// https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html.

import { readFloatConstant, readConstantTensor } from "../onnx/constants.ts";
import { UniqueNames, NodeChanges, redirectUse } from "../onnx/graph-edits.ts";
import { traverseGraphs } from "../onnx/graph-traversal.ts";
import type { Model } from "../onnx/model-file.ts";
import { findAttribute, isOnnxOp, makeNode } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { readIntegers, makeTensor } from "../onnx/tensor-data.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import type { ValueType } from "../onnx/type-inference.ts";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";
import { expandQLinear } from "./expand-qlinear.ts";

export interface DequantizeReport {
  /** Number of constants converted to FP32. */
  readonly constants: number;
  /** Number of removed roundings to 8 bits. */
  readonly activations: number;
}

/** First version of Clip with its bounds as inputs. */
const MIN_OPSET = 11;

/**
 * Changes the model. Unsupported forms (dynamic quantization, 4 bits) remain unchanged.
 * @throws invalid_model_file
 */
export function dequantize(model: Model): DequantizeReport {
  if ((opsetsOf(model).get("") ?? 0) < MIN_OPSET) return { constants: 0, activations: 0 };
  sortTopologically(model);
  expandQLinear(model);
  const constants = foldDequantizedConstants(model);
  return { constants, activations: replaceRoundingsWithClip(model) };
}

/** Folds each DQ of a constant into an FP32 constant. */
function foldDequantizedConstants(model: Model): number {
  const table = buildValueTable(model);
  const changes = new NodeChanges();
  let count = 0;
  for (const value of table.values) {
    const { origin, graph, type } = value;
    if (origin.kind !== "node" || type !== "float" || !isOnnxOp(origin.node, "DequantizeLinear"))
      continue;
    const folded = dequantizeConstant(table, origin.node, value.name);
    if (folded === undefined) continue;
    graph.initializer.push(folded);
    changes.remove(origin.node);
    count++;
  }
  changes.apply(model);
  removeUnreadInitializers(model);
  return count;
}

function dequantizeConstant(
  table: ValueTable,
  node: NodeProto,
  name: string,
): TensorProto | undefined {
  const [x, scale, zeroPoint] = table.inputsOf(node);
  const tensor = readConstantTensor(x);
  const [values, scales] = [tensor && readIntegers(tensor), readFloatConstant(scale)];
  const zeroPoints = zeroPoint === undefined ? Float64Array.of(0) : readConstantIntegers(zeroPoint);
  if (
    tensor === undefined ||
    values === undefined ||
    scales === undefined ||
    zeroPoints === undefined ||
    findAttribute(node, "block_size")?.i
  )
    return undefined;
  const { dims } = tensor;
  const axis = Number(findAttribute(node, "axis")?.i ?? 1n);
  const inner = dims
    .slice((axis < 0 ? axis + dims.length : axis) + 1)
    .reduce((product, size) => product * Number(size), 1);
  const data = new Float32Array(values.length);
  for (let index = 0; index < data.length; index++) {
    const channel = scales.length === 1 ? 0 : Math.floor(index / inner) % scales.length;
    data[index] =
      ((values[index] ?? 0) - (zeroPoints[zeroPoints.length === 1 ? 0 : channel] ?? 0)) *
      (scales[channel] ?? 0);
  }
  return makeTensor(name, "float", dims, data);
}

const readConstantIntegers = (value: Value | undefined): Float64Array | undefined => {
  const tensor = readConstantTensor(value);
  return tensor && readIntegers(tensor);
};

/**
 * Replaces Q followed by DQ with the same scale and zero point by a Clip, because only the range
 * remains.
 */
function replaceRoundingsWithClip(model: Model): number {
  const table = buildValueTable(model);
  const names = new UniqueNames(model);
  const changes = new NodeChanges();
  let count = 0;
  for (const node of table.nodes) {
    const [x, scale, zeroPoint] = table.inputsOf(node);
    const [quantized] = table.outputsOf(node);
    const range =
      isOnnxOp(node, "QuantizeLinear") && x?.type === "float"
        ? representableRange(scale, zeroPoint, quantized?.type)
        : undefined;
    if (x === undefined || quantized === undefined || range === undefined) continue;
    const readers = quantized.uses.flatMap((use) =>
      use.kind === "node" &&
      use.position === 0 &&
      isInverseOfQuantize(table, use.node, scale, zeroPoint)
        ? [use.node]
        : [],
    );
    const restorable = readers.flatMap((reader) => table.outputsOf(reader)[0] ?? []);
    // An output keeps its name.
    const output = restorable.find(isOutput);
    const restored = restorable.filter((value) => value === output || !isOutput(value));
    if (restored.length === 0) continue;

    const clipped = output?.name ?? names.reserve(`${x.name}_clipped`);
    const bounds = range.map((bound, index) =>
      makeTensor(
        names.reserve(`${clipped}_${index === 0 ? "from" : "to"}`),
        "float",
        [],
        Float32Array.of(bound),
      ),
    );
    quantized.graph.initializer.push(...bounds);
    changes.insertAfter(
      node,
      makeNode({
        name: names.reserve(`Clip_${clipped}`),
        op: "Clip",
        inputs: [node.input[0] ?? "", ...bounds.map(({ name }) => name)],
        outputs: [clipped],
      }),
    );
    for (const { uses, origin } of restored) {
      for (const use of uses) redirectUse(use, clipped);
      if (origin.kind === "node") changes.remove(origin.node);
    }
    if (restored.length === quantized.uses.length) changes.remove(node);
    count++;
  }
  changes.apply(model);
  removeUnreadInitializers(model);
  return count;
}

const isOutput = ({ uses }: Value): boolean => uses.some(({ kind }) => kind === "output");

const INTEGER_BOUNDS: Readonly<Record<string, readonly [lowest: number, highest: number]>> = {
  uint8: [0, 255],
  int8: [-128, 127],
  uint16: [0, 65_535],
  int16: [-32_768, 32_767],
};

/**
 * Returns the limits of the real numbers that 8 (or 16) bits represent, or undefined if they vary
 * by channel or are not constant.
 */
function representableRange(
  scale: Value | undefined,
  zeroPoint: Value | undefined,
  type: ValueType | undefined,
): readonly number[] | undefined {
  const [[step, ...more], [offset, ...others]] = [
    readFloatConstant(scale) ?? [],
    zeroPoint === undefined ? [0] : (readConstantIntegers(zeroPoint) ?? []),
  ];
  if (
    step === undefined ||
    offset === undefined ||
    more.length + others.length > 0 ||
    type === undefined
  )
    return undefined;
  return INTEGER_BOUNDS[type]?.map((bound) => (bound - offset) * step);
}

function isInverseOfQuantize(
  table: ValueTable,
  node: NodeProto,
  scale: Value | undefined,
  zeroPoint: Value | undefined,
): boolean {
  if (!isOnnxOp(node, "DequantizeLinear") || table.outputsOf(node)[0]?.type !== "float")
    return false;
  const [, ownScale, ownZeroPoint] = table.inputsOf(node);
  const [zeroPoints, ownZeroPoints] = [
    zeroPoint && readConstantIntegers(zeroPoint),
    ownZeroPoint && readConstantIntegers(ownZeroPoint),
  ];
  return (
    readFloatConstant(scale)?.[0] === readFloatConstant(ownScale)?.[0] &&
    readFloatConstant(ownScale)?.length === 1 &&
    (zeroPoints?.[0] ?? 0) === (ownZeroPoints?.[0] ?? 0)
  );
}

/** Removes initializers without readers. */
function removeUnreadInitializers(model: Model): void {
  const unread = new Set<TensorProto>();
  for (const { origin, uses } of buildValueTable(model).values)
    if (origin.kind === "initializer" && origin.input === undefined && uses.length === 0)
      unread.add(origin.tensor);
  for (const graph of traverseGraphs(model.graph))
    graph.initializer = graph.initializer.filter((tensor) => !unread.has(tensor));
}
