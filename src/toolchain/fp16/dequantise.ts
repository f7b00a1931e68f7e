// Quantised graphs made FP32 again, for places where INT8 gains nothing, such as most GPUs: weights become what their INT8
// values stand for, and activations are no longer rounded to 8 bits. The range of the 8 bits stays, as it is often an
// activation function (ReLU6 is the range from 0 to 6).
//
// Q and DQ: operators QuantizeLinear and DequantizeLinear, https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html.

import { constantOf, constantTensorOf } from "../onnx/constants.ts";
import { FreshNames, NodeChanges, redirect } from "../onnx/edit.ts";
import type { Model } from "../onnx/model-file.ts";
import { attributeOf, isOnnxNode, makeNode } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { sortNodes } from "../onnx/sort.ts";
import { integersOf, makeTensor } from "../onnx/tensors.ts";
import type { ValueType } from "../onnx/types.ts";
import { type Value, type ValueTable, valuesOf } from "../onnx/values.ts";
import { graphsWithin } from "../onnx/walk.ts";
import { expandQLinear } from "./expand-qlinear.ts";

export interface Dequantised {
  /** Constants that are FP32 now. */
  readonly constants: number;
  /** Roundings to 8 bits that are gone. */
  readonly activations: number;
}

/** The version of Clip that takes its bounds as inputs. */
const OLDEST_OPSET = 11;

/**
 * Changes the model. What it does not know how to make FP32 (dynamic quantisation, 4 bits) stays as it is.
 * @throws invalid_model_file
 */
export function dequantise(model: Model): Dequantised {
  if ((opsetsOf(model).get("") ?? 0) < OLDEST_OPSET) return { constants: 0, activations: 0 };
  sortNodes(model);
  expandQLinear(model);
  const constants = foldConstants(model);
  return { constants, activations: dropRoundings(model) };
}

/** DQ of a constant is one. */
function foldConstants(model: Model): number {
  const table = valuesOf(model);
  const changes = new NodeChanges();
  let count = 0;
  for (const value of table.values) {
    const { origin, graph, type } = value;
    if (origin.kind !== "node" || type !== "float" || !isOnnxNode(origin.node, "DequantizeLinear"))
      continue;
    const folded = dequantised(table, origin.node, value.name);
    if (folded === undefined) continue;
    graph.initializer.push(folded);
    changes.remove(origin.node);
    count++;
  }
  changes.apply(model);
  dropUnread(model);
  return count;
}

function dequantised(table: ValueTable, node: NodeProto, name: string): TensorProto | undefined {
  const [x, scale, zero] = table.inputsOf(node);
  const tensor = constantTensorOf(x);
  const [values, scales] = [tensor && integersOf(tensor), constantOf(scale)];
  const zeros = zero === undefined ? Float64Array.of(0) : integersOfValue(zero);
  if (
    tensor === undefined ||
    values === undefined ||
    scales === undefined ||
    zeros === undefined ||
    attributeOf(node, "block_size")?.i
  )
    return undefined;
  const { dims } = tensor;
  const axis = Number(attributeOf(node, "axis")?.i ?? 1n);
  const inner = dims
    .slice((axis < 0 ? axis + dims.length : axis) + 1)
    .reduce((product, size) => product * Number(size), 1);
  const data = new Float32Array(values.length);
  for (let index = 0; index < data.length; index++) {
    const channel = scales.length === 1 ? 0 : Math.floor(index / inner) % scales.length;
    data[index] =
      ((values[index] ?? 0) - (zeros[zeros.length === 1 ? 0 : channel] ?? 0)) *
      (scales[channel] ?? 0);
  }
  return makeTensor(name, "float", dims, data);
}

const integersOfValue = (value: Value | undefined): Float64Array | undefined => {
  const tensor = constantTensorOf(value);
  return tensor && integersOf(tensor);
};

/** DQ of Q, with the same scale and zero point, only has the range left. */
function dropRoundings(model: Model): number {
  const table = valuesOf(model);
  const names = new FreshNames(model);
  const changes = new NodeChanges();
  let count = 0;
  for (const node of table.nodes) {
    const [x, scale, zero] = table.inputsOf(node);
    const [quantised] = table.outputsOf(node);
    const range =
      isOnnxNode(node, "QuantizeLinear") && x?.type === "float"
        ? rangeOf(scale, zero, quantised?.type)
        : undefined;
    if (x === undefined || quantised === undefined || range === undefined) continue;
    const readers = quantised.uses.flatMap((use) =>
      use.kind === "node" && use.position === 0 && isInverse(table, use.node, scale, zero)
        ? [use.node]
        : [],
    );
    const all = readers.flatMap((reader) => table.outputsOf(reader)[0] ?? []);
    const output = all.find(isOutput); // which keeps its name
    const restored = all.filter((value) => value === output || !isOutput(value));
    if (restored.length === 0) continue;

    const clipped = output?.name ?? names.take(`${x.name}_clipped`);
    const bounds = range.map((bound, index) =>
      makeTensor(
        names.take(`${clipped}_${index === 0 ? "from" : "to"}`),
        "float",
        [],
        Float32Array.of(bound),
      ),
    );
    quantised.graph.initializer.push(...bounds);
    changes.insertAfter(
      node,
      makeNode({
        name: names.take(`Clip_${clipped}`),
        op: "Clip",
        inputs: [node.input[0] ?? "", ...bounds.map(({ name }) => name)],
        outputs: [clipped],
      }),
    );
    for (const { uses, origin } of restored) {
      for (const use of uses) redirect(use, clipped);
      if (origin.kind === "node") changes.remove(origin.node);
    }
    if (restored.length === quantised.uses.length) changes.remove(node);
    count++;
  }
  changes.apply(model);
  dropUnread(model);
  return count;
}

const isOutput = ({ uses }: Value): boolean => uses.some(({ kind }) => kind === "output");

const INTEGERS: Readonly<Record<string, readonly [lowest: number, highest: number]>> = {
  uint8: [0, 255],
  int8: [-128, 127],
  uint16: [0, 65_535],
  int16: [-32_768, 32_767],
};

/** The numbers that the 8 (or 16) bits can stand for; undefined where they differ by channel, or are not constant. */
function rangeOf(
  scale: Value | undefined,
  zero: Value | undefined,
  type: ValueType | undefined,
): readonly number[] | undefined {
  const [[step, ...more], [offset, ...others]] = [
    constantOf(scale) ?? [],
    zero === undefined ? [0] : (integersOfValue(zero) ?? []),
  ];
  if (
    step === undefined ||
    offset === undefined ||
    more.length + others.length > 0 ||
    type === undefined
  )
    return undefined;
  return INTEGERS[type]?.map((bound) => (bound - offset) * step);
}

function isInverse(
  table: ValueTable,
  node: NodeProto,
  scale: Value | undefined,
  zero: Value | undefined,
): boolean {
  if (!isOnnxNode(node, "DequantizeLinear") || table.outputsOf(node)[0]?.type !== "float")
    return false;
  const [, ownScale, ownZero] = table.inputsOf(node);
  const [zeros, ownZeros] = [zero && integersOfValue(zero), ownZero && integersOfValue(ownZero)];
  return (
    constantOf(scale)?.[0] === constantOf(ownScale)?.[0] &&
    constantOf(ownScale)?.length === 1 &&
    (zeros?.[0] ?? 0) === (ownZeros?.[0] ?? 0)
  );
}

/** Initializers that nothing reads any more. */
function dropUnread(model: Model): void {
  const unread = new Set<TensorProto>();
  for (const { origin, uses } of valuesOf(model).values)
    if (origin.kind === "initializer" && origin.input === undefined && uses.length === 0)
      unread.add(origin.tensor);
  for (const graph of graphsWithin(model.graph))
    graph.initializer = graph.initializer.filter((tensor) => !unread.has(tensor));
}
