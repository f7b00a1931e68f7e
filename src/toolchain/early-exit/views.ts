// Views: supports cuts of graphs that compute several rows for one input, such as an image and its mirror image. Such graphs
// average the answers at the end. A value crosses a cut with its views side by side, so that it has one row per input.

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
  /** Name of the value in the graph. */
  readonly value: string;
  /** Shape with views side by side in dimension 1; -1 for rows and for dimensions that vary between requests. */
  readonly shape: readonly number[];
  /** Number of rows of the value in the graph per row of the inputs. */
  readonly views: number;
}

/** Changes the model so that the value has its views side by side. Its readers still get them as separate rows. */
export function joinViews(model: Model, { value: name, shape, views }: CutTensor): void {
  const table = buildValueTable(model);
  const value = table.values.find(
    (candidate) => candidate.graph === model.graph && candidate.name === name,
  );
  if (value === undefined || views === 1) return;
  const producer = producerOf(value, "DequantizeLinear");
  const dequantizeNode =
    producer !== undefined && readFloatConstant(table.inputsOf(producer)[1])?.length === 1
      ? producer
      : undefined;
  const readers = [...value.uses];
  const separate = new UniqueNames(model).reserve(`${name}_views`);
  if (dequantizeNode === undefined) renameAtOrigin(value, separate);

  const writer = createGraphWriter(model);
  const addReshape = (from: string, to: string, sizes: readonly number[]) =>
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
  // An 8-bit value is reshaped before it is dequantized, so that it crosses the cut unchanged.
  if (dequantizeNode === undefined) addReshape(separate, name, [rows, width, ...others]);
  else
    dequantizeNode.input[0] = addReshape(dequantizeNode.input[0] ?? "", `${name}_joined`, [
      rows,
      width,
      ...others,
    ]);
  const apart = addReshape(name, `${name}_apart`, [rows, width / views, ...others]);
  for (const use of readers) redirectUse(use, apart);
  model.graph.valueInfo = model.graph.valueInfo.filter((info) => info.name !== name);
  sortTopologically(model);
}

/** Share of the largest magnitude. A graph in 8 bits may give slightly other results in a batch. */
const TOLERANCE = 0.05;

/**
 * Finds values in which all views of an input are adjacent, so that a reshape joins them. In other values, the second views
 * of all inputs follow the first views of all inputs.
 * @param values names of values with several views
 * @throws session_failed
 */
export async function findAdjacentViews(
  runtime: Runtime,
  model: Model,
  values: readonly string[],
  multipleRows: NamedTensors,
): Promise<ReadonlySet<string>> {
  if (values.length === 0) return new Set();
  const part = extractSubgraph(model, { outputs: values });
  const session = await runtime.createSession(serializeModel(part));
  try {
    const inputs = selectInputs(session, multipleRows);
    const allRows = await session.run(inputs);
    const firstRow = await session.run(
      Object.fromEntries(
        Object.entries(inputs).map(([name, tensor]) => [name, sliceFirstRow(tensor)]),
      ),
    );
    return new Set(
      values.filter((name) => isPrefix(fp32Values(firstRow[name]), fp32Values(allRows[name]))),
    );
  } finally {
    await session.dispose();
  }
}

function sliceFirstRow(tensor: Tensor): Tensor {
  const [rows = 1, ...others] = tensor.shape;
  return {
    ...tensor,
    shape: [1, ...others],
    data: tensor.data.slice(0, tensor.data.length / rows),
  } as Tensor;
}

const fp32Values = (tensor: Tensor | undefined): Float32Array =>
  tensor?.datatype === "FP32" ? tensor.data : new Float32Array();

/** Whether `all` begins with the numbers of `first`, within the tolerance. */
function isPrefix(first: Float32Array, all: Float32Array): boolean {
  const largest = first.reduce((maximum, value) => Math.max(maximum, Math.abs(value)), 0);
  return first.every(
    (value, position) => Math.abs(value - (all[position] ?? Number.NaN)) <= TOLERANCE * largest,
  );
}
