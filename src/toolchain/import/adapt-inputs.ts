// Makes a graph's inputs those that a task's preprocessor gives, where nodes put in front of it can.

import { create } from "@bufbuild/protobuf";
import { FreshNames, NodeChanges, redirect } from "../onnx/edit.ts";
import type { Model } from "../onnx/model-file.ts";
import { intAttribute, intsAttribute, makeNode, tensorAttribute } from "../onnx/nodes.ts";
import {
  type TensorShapeProto_Dimension,
  TensorShapeProto_DimensionSchema,
  type ValueInfoProto,
} from "../onnx/proto/onnx_pb.js";
import { renameValue } from "../onnx/rename.ts";
import { codeOf, makeTensor } from "../onnx/tensors.ts";
import { type Value, valuesOf } from "../onnx/values.ts";

/** A dimension as declared: a size, or undefined where it may be any. */
export function dimsOf(info: ValueInfoProto): readonly (number | undefined)[] | undefined {
  const type = info.type?.value;
  if (type?.case !== "tensorType") return undefined;
  return type.value.shape?.dim.map(({ value }) =>
    value.case === "dimValue" && value.value > 0n ? Number(value.value) : undefined,
  );
}

/** As onnx writes it: `float`. */
export function elementCodeOf(info: ValueInfoProto): number {
  const type = info.type?.value;
  return type?.case === "tensorType" ? type.value.elemType : 0;
}

/** @param name of an input of the model */
export function renameInput(model: Model, name: string, wanted: string): void {
  const table = valuesOf(model);
  const value = inputValue(table.values, model, name);
  if (value !== undefined) renameValue(model, table, value, wanted);
}

/** The input takes INT64, and a Cast gives the graph what it took before. */
export function takeInt64(model: Model, name: string): void {
  const before = elementCodeOf(infoOf(model, name));
  putInFront(model, name, (from, to) =>
    makeNode({
      name: to,
      op: "Cast",
      inputs: [from],
      outputs: [to],
      attributes: [intAttribute("to", before)],
    }),
  );
  const type = infoOf(model, name).type?.value;
  if (type?.case === "tensorType") type.value.elemType = codeOf("int64");
}

/** The input is no more: the graph gets zeros of the shape of another one, which has its type. */
export function giveZeros(model: Model, name: string, like: string): void {
  const names = new FreshNames(model);
  const size = names.take(`${name}_size`);
  const zero = makeTensor("value", "int64", [1n], BigInt64Array.of(0n));
  const isInt32 = elementCodeOf(infoOf(model, name)) === codeOf("int32");
  const zeros = isInt32 ? names.take(`${name}_zeros`) : name;
  const changes = new NodeChanges();
  changes.insertFirst(
    model.graph,
    makeNode({ name: size, op: "Shape", inputs: [like], outputs: [size] }),
    makeNode({
      name: names.take(`make_${name}`),
      op: "ConstantOfShape",
      inputs: [size],
      outputs: [zeros],
      attributes: [tensorAttribute("value", zero)],
    }),
  );
  if (isInt32)
    changes.insertFirst(
      model.graph,
      makeNode({
        name: names.take(`cast_${name}`),
        op: "Cast",
        inputs: [zeros],
        outputs: [name],
        attributes: [intAttribute("to", codeOf("int32"))],
      }),
    );
  changes.apply(model);
  model.graph.input = model.graph.input.filter((input) => input.name !== name);
}

/** The input takes [batch, channels, height, width], and a Transpose gives the graph the channels last. */
export function takeChannelsFirst(model: Model, name: string): void {
  putInFront(model, name, (from, to) =>
    makeNode({
      name: to,
      op: "Transpose",
      inputs: [from],
      outputs: [to],
      attributes: [intsAttribute("perm", [0, 2, 3, 1])],
    }),
  );
  const type = infoOf(model, name).type?.value;
  if (type?.case !== "tensorType" || type.value.shape === undefined) return;
  const [batch, height, width, channels] = type.value.shape.dim;
  type.value.shape.dim = [batch, channels, height, width].filter((dim) => dim !== undefined);
}

/** Lets the first dimension of all inputs and outputs be any. Whether the graph works with that, only running it tells. */
export function openBatch(model: Model): void {
  const { graph } = model;
  for (const info of [...graph.input, ...graph.output]) {
    const type = info.type?.value;
    const dims = type?.case === "tensorType" ? type.value.shape?.dim : undefined;
    if (dims !== undefined && dims.length > 0) dims[0] = anySize("batch");
  }
  graph.valueInfo = []; // they tell shapes of the batch that it was exported with
}

const anySize = (name: string): TensorShapeProto_Dimension =>
  create(TensorShapeProto_DimensionSchema, { value: { case: "dimParam", value: name } });

function putInFront(
  model: Model,
  name: string,
  make: (from: string, to: string) => ReturnType<typeof makeNode>,
): void {
  const value = inputValue(valuesOf(model).values, model, name);
  if (value === undefined) return;
  const inner = new FreshNames(model).take(`${name}_inner`);
  for (const use of value.uses) redirect(use, inner);
  const changes = new NodeChanges();
  changes.insertFirst(model.graph, make(name, inner));
  changes.apply(model);
}

const inputValue = (values: readonly Value[], { graph }: Model, name: string): Value | undefined =>
  values.find(
    (value) => value.name === name && value.graph === graph && value.origin.kind === "input",
  );

function infoOf({ graph }: Model, name: string): ValueInfoProto {
  const info = graph.input.find((input) => input.name === name);
  if (info === undefined) throw new RangeError(`the graph has no input ${name}`);
  return info;
}
