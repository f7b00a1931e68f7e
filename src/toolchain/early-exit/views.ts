// Graphs that make several rows of one input, its views: an image and its mirror image, say, whose answers are averaged at the
// end. A value of theirs crosses a cut with its views side by side in one row, as every value has one row for each input.

import type { NamedTensors, Tensor } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { readFloatConstant } from "../onnx/constants.ts";
import { extractSubgraph } from "../onnx/extract-subgraph.ts";
import { UniqueNames, redirectUse, renameAtOrigin } from "../onnx/graph-edits.ts";
import { producerOf } from "../onnx/graph-queries.ts";
import { type Model, serializeModel } from "../onnx/model-file.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import { buildValueTable } from "../onnx/value-table.ts";
import { selectInputs } from "../select-inputs.ts";
import { createGraphWriter } from "./graph-writer.ts";

export interface CutTensor {
  /** Its name in the graph. */
  readonly value: string;
  /** -1 for rows, and for what differs between requests. Views are side by side: they share dimension 1. */
  readonly shape: readonly number[];
  /** Rows of the value in the graph for each row of the inputs. */
  readonly views: number;
}

/** Changes the model: the value has this shape, and its readers read its views one below the other, as before. */
export function joinViews(model: Model, { value: name, shape, views }: CutTensor): void {
  const table = buildValueTable(model);
  const value = table.values.find((one) => one.graph === model.graph && one.name === name);
  if (value === undefined || views === 1) return;
  const dequantise = producerOf(value, "DequantizeLinear");
  const inEightBits =
    dequantise !== undefined && readFloatConstant(table.inputsOf(dequantise)[1])?.length === 1
      ? dequantise
      : undefined;
  const readers = [...value.uses];
  const separate = new UniqueNames(model).reserve(`${name}_views`);
  if (inEightBits === undefined) renameAtOrigin(value, separate);

  const writer = createGraphWriter(model);
  const reshaped = (from: string, to: string, sizes: readonly number[]) =>
    writer.addNode(
      "Reshape",
      [
        from,
        writer.addConstant(
          `${to}_shape`,
          "int64",
          [sizes.length],
          BigInt64Array.from(sizes, BigInt),
        ),
      ],
      to,
    );
  const [rows = -1, width = 1, ...others] = shape;
  // In front of the scale, so that what the graph has in 8 bits crosses as it is.
  if (inEightBits === undefined) reshaped(separate, name, [rows, width, ...others]);
  else
    inEightBits.input[0] = reshaped(inEightBits.input[0] ?? "", `${name}_joined`, [
      rows,
      width,
      ...others,
    ]);
  const apart = reshaped(name, `${name}_apart`, [rows, width / views, ...others]);
  for (const use of readers) redirectUse(use, apart);
  model.graph.valueInfo = model.graph.valueInfo.filter((info) => info.name !== name);
  sortTopologically(model);
}

/** Of the largest magnitude: a graph in 8 bits may answer a little otherwise with others beside it. */
const TOLERANCE = 0.05;

/**
 * Whether an input's views follow each other, and not the second views of all inputs their first: the former can be joined
 * without moving anything.
 * @param values by name, with their views @returns those of which it is so @throws session_failed
 */
export async function findAdjacentViews(
  runtime: Runtime,
  model: Model,
  values: readonly string[],
  several: NamedTensors,
): Promise<ReadonlySet<string>> {
  if (values.length === 0) return new Set();
  const part = extractSubgraph(model, { outputs: values });
  const session = await runtime.createSession(serializeModel(part));
  try {
    const taken = selectInputs(session, several);
    const ofAll = await session.run(taken);
    const ofFirst = await session.run(
      Object.fromEntries(Object.entries(taken).map(([name, tensor]) => [name, firstRow(tensor)])),
    );
    return new Set(
      values.filter((name) => startsWithValues(fp32Values(ofAll[name]), fp32Values(ofFirst[name]))),
    );
  } finally {
    await session.dispose();
  }
}

function firstRow(tensor: Tensor): Tensor {
  const [rows = 1, ...others] = tensor.shape;
  return {
    ...tensor,
    shape: [1, ...others],
    data: tensor.data.slice(0, tensor.data.length / rows),
  } as Tensor;
}

const fp32Values = (tensor: Tensor | undefined): Float32Array =>
  tensor?.datatype === "FP32" ? tensor.data : new Float32Array();

function startsWithValues(all: Float32Array, first: Float32Array): boolean {
  const largest = first.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return first.every(
    (value, position) => Math.abs(value - (all[position] ?? Number.NaN)) <= TOLERANCE * largest,
  );
}
