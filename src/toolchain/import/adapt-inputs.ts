// Makes a graph's inputs those that a task's preprocessor gives, where nodes put in front of it can.

import { create } from "@bufbuild/protobuf";
import { UniqueNames, NodeChanges, redirectUse } from "../onnx/graph-edits.ts";
import type { Model } from "../onnx/model-file.ts";
import {
  makeIntAttribute,
  makeIntsAttribute,
  makeNode,
  makeTensorAttribute,
} from "../onnx/nodes.ts";
import {
  type TensorShapeProto_Dimension,
  TensorShapeProto_DimensionSchema,
  type ValueInfoProto,
} from "../onnx/proto/onnx_pb.js";
import { renameValue } from "../onnx/rename-value.ts";
import { toDataType, makeTensor } from "../onnx/tensor-data.ts";
import { type Value, buildValueTable } from "../onnx/value-table.ts";

/** A dimension as declared: a size, or undefined where it may be any. */
export function readDeclaredDims(
  info: ValueInfoProto,
): readonly (number | undefined)[] | undefined {
  const type = info.type?.value;
  if (type?.case !== "tensorType") return undefined;
  return type.value.shape?.dim.map(({ value }) =>
    value.case === "dimValue" && value.value > 0n ? Number(value.value) : undefined,
  );
}

/** As onnx writes it: `float`. */
export function elemTypeOf(info: ValueInfoProto): number {
  const type = info.type?.value;
  return type?.case === "tensorType" ? type.value.elemType : 0;
}

/** @param name of an input of the model */
export function renameInput(model: Model, name: string, wanted: string): void {
  const table = buildValueTable(model);
  const value = findInputValue(table.values, model, name);
  if (value !== undefined) renameValue(model, table, value, wanted);
}

/** The input takes INT64, and a Cast gives the graph what it took before. */
export function convertInputToInt64(model: Model, name: string): void {
  const before = elemTypeOf(findInputInfo(model, name));
  insertBeforeInput(model, name, (from, to) =>
    makeNode({
      name: to,
      op: "Cast",
      inputs: [from],
      outputs: [to],
      attributes: [makeIntAttribute("to", before)],
    }),
  );
  const type = findInputInfo(model, name).type?.value;
  if (type?.case === "tensorType") type.value.elemType = toDataType("int64");
}

/** The input is no more: the graph gets zeros of the shape of another one, which has its type. */
export function replaceInputWithZeros(model: Model, name: string, like: string): void {
  const names = new UniqueNames(model);
  const size = names.reserve(`${name}_size`);
  const zero = makeTensor("value", "int64", [1n], BigInt64Array.of(0n));
  const isInt32 = elemTypeOf(findInputInfo(model, name)) === toDataType("int32");
  const zeros = isInt32 ? names.reserve(`${name}_zeros`) : name;
  const changes = new NodeChanges();
  changes.insertFirst(
    model.graph,
    makeNode({ name: size, op: "Shape", inputs: [like], outputs: [size] }),
    makeNode({
      name: names.reserve(`make_${name}`),
      op: "ConstantOfShape",
      inputs: [size],
      outputs: [zeros],
      attributes: [makeTensorAttribute("value", zero)],
    }),
  );
  if (isInt32)
    changes.insertFirst(
      model.graph,
      makeNode({
        name: names.reserve(`cast_${name}`),
        op: "Cast",
        inputs: [zeros],
        outputs: [name],
        attributes: [makeIntAttribute("to", toDataType("int32"))],
      }),
    );
  changes.apply(model);
  model.graph.input = model.graph.input.filter((input) => input.name !== name);
}

/** The input takes [batch, channels, height, width], and a Transpose gives the graph the channels last. */
export function convertInputToNchw(model: Model, name: string): void {
  insertBeforeInput(model, name, (from, to) =>
    makeNode({
      name: to,
      op: "Transpose",
      inputs: [from],
      outputs: [to],
      attributes: [makeIntsAttribute("perm", [0, 2, 3, 1])],
    }),
  );
  const type = findInputInfo(model, name).type?.value;
  if (type?.case !== "tensorType" || type.value.shape === undefined) return;
  const [batch, height, width, channels] = type.value.shape.dim;
  type.value.shape.dim = [batch, channels, height, width].filter((dim) => dim !== undefined);
}

/** Lets the first dimension of all inputs and outputs be any. Whether the graph works with that, only running it tells. */
export function makeBatchDynamic(model: Model): void {
  const { graph } = model;
  for (const info of [...graph.input, ...graph.output]) {
    const type = info.type?.value;
    const dims = type?.case === "tensorType" ? type.value.shape?.dim : undefined;
    if (dims !== undefined && dims.length > 0) dims[0] = dynamicDimension("batch");
  }
  graph.valueInfo = []; // they tell shapes of the batch that it was exported with
}

const dynamicDimension = (name: string): TensorShapeProto_Dimension =>
  create(TensorShapeProto_DimensionSchema, { value: { case: "dimParam", value: name } });

function insertBeforeInput(
  model: Model,
  name: string,
  make: (from: string, to: string) => ReturnType<typeof makeNode>,
): void {
  const value = findInputValue(buildValueTable(model).values, model, name);
  if (value === undefined) return;
  const inner = new UniqueNames(model).reserve(`${name}_inner`);
  for (const use of value.uses) redirectUse(use, inner);
  const changes = new NodeChanges();
  changes.insertFirst(model.graph, make(name, inner));
  changes.apply(model);
}

const findInputValue = (
  values: readonly Value[],
  { graph }: Model,
  name: string,
): Value | undefined =>
  values.find(
    (value) => value.name === name && value.graph === graph && value.origin.kind === "input",
  );

function findInputInfo({ graph }: Model, name: string): ValueInfoProto {
  const info = graph.input.find((input) => input.name === name);
  if (info === undefined) throw new RangeError(`the graph has no input ${name}`);
  return info;
}
