// Adapts a graph's inputs to the outputs of a task's preprocessor, by inserting nodes in front of
// the graph.

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

/** Returns the declared dimensions: a size each, or undefined for a dynamic dimension. */
export function readDeclaredDims(
  info: ValueInfoProto,
): readonly (number | undefined)[] | undefined {
  const type = info.type?.value;
  if (type?.case !== "tensorType") return undefined;
  return type.value.shape?.dim.map(({ value }) =>
    value.case === "dimValue" && value.value > 0n ? Number(value.value) : undefined,
  );
}

/** Returns the element type in ONNX's numbering, or 0 if the input is not a tensor. */
export function elemTypeOf(info: ValueInfoProto): number {
  const type = info.type?.value;
  return type?.case === "tensorType" ? type.value.elemType : 0;
}

/** @param name name of one of the model's inputs */
export function renameInput(model: Model, name: string, newName: string): void {
  const table = buildValueTable(model);
  const value = findInputValue(table.values, model, name);
  if (value !== undefined) renameValue(model, table, value, newName);
}

/** Changes the input to INT64. A Cast restores the original type for the graph. */
export function convertInputToInt64(model: Model, name: string): void {
  const originalType = elemTypeOf(findInputInfo(model, name));
  insertBeforeInput(model, name, (source, target) =>
    makeNode({
      name: target,
      op: "Cast",
      inputs: [source],
      outputs: [target],
      attributes: [makeIntAttribute("to", originalType)],
    }),
  );
  const type = findInputInfo(model, name).type?.value;
  if (type?.case === "tensorType") type.value.elemType = toDataType("int64");
}

/**
 * Removes the input. The graph reads zeros with the shape of another input instead, which has the
 * same type.
 */
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

/**
 * Changes the input to [batch, channels, height, width]. A Transpose restores channels-last for the
 * graph.
 */
export function convertInputToNchw(model: Model, name: string): void {
  insertBeforeInput(model, name, (source, target) =>
    makeNode({
      name: target,
      op: "Transpose",
      inputs: [source],
      outputs: [target],
      attributes: [makeIntsAttribute("perm", [0, 2, 3, 1])],
    }),
  );
  const type = findInputInfo(model, name).type?.value;
  if (type?.case !== "tensorType" || type.value.shape === undefined) return;
  const [batch, height, width, channels] = type.value.shape.dim;
  type.value.shape.dim = [batch, channels, height, width].filter((dim) => dim !== undefined);
}

/**
 * Makes the first dimension of all inputs and outputs dynamic. Only a run shows whether the graph
 * supports that.
 */
export function makeBatchDynamic(model: Model): void {
  const { graph } = model;
  for (const info of [...graph.input, ...graph.output]) {
    const type = info.type?.value;
    const dims = type?.case === "tensorType" ? type.value.shape?.dim : undefined;
    if (dims !== undefined && dims.length > 0) dims[0] = dynamicDimension("batch");
  }
  // The value infos declare shapes for the batch size of the export.
  graph.valueInfo = [];
}

const dynamicDimension = (name: string): TensorShapeProto_Dimension =>
  create(TensorShapeProto_DimensionSchema, { value: { case: "dimParam", value: name } });

function insertBeforeInput(
  model: Model,
  name: string,
  makeAdapter: (source: string, target: string) => ReturnType<typeof makeNode>,
): void {
  const value = findInputValue(buildValueTable(model).values, model, name);
  if (value === undefined) return;
  const inner = new UniqueNames(model).reserve(`${name}_inner`);
  for (const use of value.uses) redirectUse(use, inner);
  const changes = new NodeChanges();
  changes.insertFirst(model.graph, makeAdapter(name, inner));
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
