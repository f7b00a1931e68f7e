// The shapes of a graph's tensors, measured: every value's shape is one more output of a run. That covers any operator, and
// shapes that depend on the input, which no inference from the graph alone can tell.

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

/** By a value's name; of the graph itself, not of the bodies of its nodes. */
export type TensorShapes = ReadonlyMap<string, readonly number[]>;

/**
 * @param inputs what the graph is asked with: the shapes are those of this request
 * @throws session_failed if the runtime cannot run it
 */
export async function measureShapes(
  runtime: Runtime,
  model: Model,
  inputs: NamedTensors,
): Promise<TensorShapes> {
  const shapes = new Map(Object.entries(inputs).map(([name, { shape }]) => [name, shape]));
  const copy = parseModel(serializeModel(model));
  const asked = new Map(addShapeOutputs(copy).map((value) => [value.shapeName, value.name]));
  if (asked.size === 0) return shapes;
  const session = await runtime.createSession(serializeModel(copy));
  try {
    for (const [shapeName, tensor] of Object.entries(await session.run(inputs)))
      shapes.set(asked.get(shapeName) ?? shapeName, Array.from(tensor.data, Number));
  } finally {
    await session.dispose();
  }
  return shapes;
}

interface ShapeOutput {
  readonly name: string;
  readonly shapeName: string;
}

/** Makes the shapes the graph's only outputs, so that nothing large leaves the runtime. */
function addShapeOutputs(model: Model): ShapeOutput[] {
  const names = new UniqueNames(model);
  const made = buildValueTable(model).values.filter(
    (value) => value.graph === model.graph && isNodeOutputTensor(value),
  );
  const asked = made.map(({ name }): ShapeOutput => ({
    name,
    shapeName: names.reserve(`${name}_shape`),
  }));
  for (const { name, shapeName } of asked)
    model.graph.node.push(
      makeNode({
        name: names.reserve(`Shape_${name}`),
        op: "Shape",
        inputs: [name],
        outputs: [shapeName],
      }),
    );
  model.graph.output = asked.map(({ shapeName }) => int64Info(shapeName));
  return asked;
}

const isNodeOutputTensor = ({ origin, type }: Value): boolean =>
  origin.kind === "node" && type !== undefined && isTensorType(type);

const int64Info = (name: string): ValueInfoProto =>
  create(ValueInfoProtoSchema, {
    name,
    type: { value: { case: "tensorType", value: { elemType: toDataType("int64") } } },
  });
