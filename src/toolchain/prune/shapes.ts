// The shapes of a graph's tensors, measured: every value's shape is one more output of a run. That covers any operator, and
// shapes that depend on the input, which no inference from the graph alone can tell.

import { create } from "@bufbuild/protobuf";
import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { FreshNames } from "../onnx/edit.ts";
import { type Model, readModel, writeModel } from "../onnx/model-file.ts";
import { makeNode } from "../onnx/nodes.ts";
import { type ValueInfoProto, ValueInfoProtoSchema } from "../onnx/proto/onnx_pb.js";
import { codeOf } from "../onnx/tensors.ts";
import { isTensorType } from "../onnx/types.ts";
import { type Value, valuesOf } from "../onnx/values.ts";

/** By a value's name; of the graph itself, not of the bodies of its nodes. */
export type Shapes = ReadonlyMap<string, readonly number[]>;

/**
 * @param inputs what the graph is asked with: the shapes are those of this request
 * @throws session_failed if the runtime cannot run it
 */
export async function measureShapes(
  runtime: Runtime,
  model: Model,
  inputs: NamedTensors,
): Promise<Shapes> {
  const shapes = new Map(Object.entries(inputs).map(([name, { shape }]) => [name, shape]));
  const copy = readModel(writeModel(model));
  const asked = new Map(addShapes(copy).map((value) => [value.shapeName, value.name]));
  if (asked.size === 0) return shapes;
  const session = await runtime.createSession(writeModel(copy));
  try {
    for (const [shapeName, tensor] of Object.entries(await session.run(inputs)))
      shapes.set(asked.get(shapeName) ?? shapeName, Array.from(tensor.data, Number));
  } finally {
    await session.dispose();
  }
  return shapes;
}

interface Asked {
  readonly name: string;
  readonly shapeName: string;
}

/** Makes the shapes the graph's only outputs, so that nothing large leaves the runtime. */
function addShapes(model: Model): Asked[] {
  const names = new FreshNames(model);
  const made = valuesOf(model).values.filter(
    (value) => value.graph === model.graph && isMadeTensor(value),
  );
  const asked = made.map(({ name }): Asked => ({ name, shapeName: names.take(`${name}_shape`) }));
  for (const { name, shapeName } of asked)
    model.graph.node.push(
      makeNode({
        name: names.take(`Shape_${name}`),
        op: "Shape",
        inputs: [name],
        outputs: [shapeName],
      }),
    );
  model.graph.output = asked.map(({ shapeName }) => int64Info(shapeName));
  return asked;
}

const isMadeTensor = ({ origin, type }: Value): boolean =>
  origin.kind === "node" && type !== undefined && isTensorType(type);

const int64Info = (name: string): ValueInfoProto =>
  create(ValueInfoProtoSchema, {
    name,
    type: { value: { case: "tensorType", value: { elemType: codeOf("int64") } } },
  });
