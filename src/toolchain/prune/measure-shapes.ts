// Measures the shapes of a graph's tensors: one run returns the shape of every value as an
// additional output. Unlike shape inference, a measurement covers any operator, and shapes that
// depend on the input.

import { create } from "@bufbuild/protobuf";
import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { UniqueNames } from "../onnx/graph-edits.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { makeNode } from "../onnx/nodes.ts";
import { type ValueInfoProto, ValueInfoProtoSchema } from "../onnx/proto/onnx_pb.js";
import { toDataType } from "../onnx/tensor-data.ts";
import { isTensorType } from "../onnx/type-inference.ts";
import { type Value, buildValueTable } from "../onnx/value-table.ts";

/** Shapes by value name, for the values of the main graph without subgraphs. */
export type TensorShapes = ReadonlyMap<string, readonly number[]>;

/**
 * @param inputs inputs of the run that determines the shapes
 * @throws session_failed if the runtime cannot run it
 */
export async function measureShapes(
  runtime: Runtime,
  model: Model,
  inputs: NamedTensors,
): Promise<TensorShapes> {
  const shapes = new Map(Object.entries(inputs).map(([name, { shape }]) => [name, shape]));
  const copy = parseModel(serializeModel(model));
  const valueNames = new Map(addShapeOutputs(copy).map(({ name, shapeName }) => [shapeName, name]));
  if (valueNames.size === 0) return shapes;
  const session = await runtime.createSession(serializeModel(copy));
  try {
    for (const [shapeName, tensor] of Object.entries(await session.run(inputs)))
      shapes.set(valueNames.get(shapeName) ?? shapeName, Array.from(tensor.data, Number));
  } finally {
    await session.dispose();
  }
  return shapes;
}

interface ShapeOutput {
  readonly name: string;
  readonly shapeName: string;
}

/** Replaces the graph's outputs by shapes, so that no large tensor leaves the runtime. */
function addShapeOutputs(model: Model): ShapeOutput[] {
  const names = new UniqueNames(model);
  const nodeOutputs = buildValueTable(model).values.filter(
    (value) => value.graph === model.graph && isNodeOutputTensor(value),
  );
  const shapeOutputs = nodeOutputs.map(({ name }): ShapeOutput => ({
    name,
    shapeName: names.reserve(`${name}_shape`),
  }));
  for (const { name, shapeName } of shapeOutputs)
    model.graph.node.push(
      makeNode({
        name: names.reserve(`Shape_${name}`),
        op: "Shape",
        inputs: [name],
        outputs: [shapeName],
      }),
    );
  model.graph.output = shapeOutputs.map(({ shapeName }) => int64Info(shapeName));
  return shapeOutputs;
}

const isNodeOutputTensor = ({ origin, type }: Value): boolean =>
  origin.kind === "node" && type !== undefined && isTensorType(type);

const int64Info = (name: string): ValueInfoProto =>
  create(ValueInfoProtoSchema, {
    name,
    type: { value: { case: "tensorType", value: { elemType: toDataType("int64") } } },
  });
