// What a graph would cost cut in two at each value that it narrows to: the share of its computation in front of it, and the
// bytes that cross it.

import { byteView } from "../../core/bytes.ts";
import type { NamedTensors, Tensor } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { readDeclaredDims } from "../import/adapt-inputs.ts";
import { extractSubgraph } from "../onnx/extract-subgraph.ts";
import type { Model } from "../onnx/model-file.ts";
import { computeLayerCosts, sumLayerCosts } from "../prune/graph-cost.ts";
import { measureShapes, type TensorShapes } from "../prune/measure-shapes.ts";
import { findDominatingValues } from "./dominating-values.ts";
import { type CutTensor, findAdjacentViews } from "./views.ts";

export interface CutPoint extends CutTensor {
  /** Of the graph's multiply-accumulate operations: what comes before it. */
  readonly share: number;
  /** Inputs of the graph that what follows needs besides, such as an attention mask. */
  readonly besides: readonly string[];
  /** Of a row, with the value in 8 bits and `besides` as they are. */
  readonly bytesPerRow: number;
}

/** Requests that differ in everything that is not fixed: one row, and several, of other lengths where the task has such. */
export interface ProbeInputs {
  readonly singleRow: NamedTensors;
  readonly multipleRows: NamedTensors;
}

/**
 * Values of ranks that can be pooled, with the rows, or several views of each, as their first dimension, from the front of the graph
 * to its end.
 * @throws session_failed
 */
export async function findCuts(
  runtime: Runtime,
  model: Model,
  { singleRow: one, multipleRows: several }: ProbeInputs,
): Promise<CutPoint[]> {
  const [ofOne, ofSeveral] = [
    await measureShapes(runtime, model, one),
    await measureShapes(runtime, model, several),
  ];
  const rows = Object.values(several)[0]?.shape[0] ?? 1;
  const outputs = model.graph.output.map(({ name }) => name);
  const total = computeMacs(model, ofOne);
  // Where inputs differ in size, what looks like views may be the tokens of all rows below each other.
  const mayHaveViews = model.graph.input.every((input) =>
    readDeclaredDims(input)
      ?.slice(1)
      .every((size) => size !== undefined),
  );
  const byRow = findDominatingValues(model).filter((value) =>
    isPerRow(ofOne.get(value) ?? [], ofSeveral.get(value) ?? [], rows, mayHaveViews),
  );
  const adjacent = await findAdjacentViews(
    runtime,
    model,
    byRow.filter((value) => viewsOf(ofOne.get(value)) > 1),
    several,
  );
  return byRow.flatMap((value): CutPoint[] => {
    const [single, multiple] = [ofOne.get(value) ?? [], ofSeveral.get(value) ?? []];
    const views = viewsOf(single);
    const share = computeMacs(extractSubgraph(model, { outputs: [value] }), ofOne) / total;
    if ((views > 1 && !adjacent.has(value)) || !(share > 0 && share < 1)) return [];
    const besides = extractSubgraph(model, { inputs: [value], outputs })
      .graph.input.map(({ name }) => name)
      .filter((name) => name !== value);
    const elements = single.reduce((product, size) => product * size, 1);
    return [
      {
        value,
        share,
        shape: single.map((size, axis) =>
          axis === 0 || size !== multiple[axis] ? -1 : axis === 1 ? views * size : size,
        ),
        views,
        besides,
        bytesPerRow: elements + besides.reduce((sum, name) => sum + tensorBytes(one[name]), 0),
      },
    ];
  });
}

const viewsOf = (ofOneRow: readonly number[] | undefined): number => ofOneRow?.[0] ?? 1;

/** @param single shape for one row @param multiple shape for so many rows */
function isPerRow(
  single: readonly number[],
  multiple: readonly number[],
  rows: number,
  mayHaveViews: boolean,
): boolean {
  const views = viewsOf(single);
  const canBePooled = single.length === multiple.length && single.length >= 2 && single.length <= 4;
  // Tokens are pooled by the inputs' mask, which has no views.
  const canBeJoined =
    mayHaveViews &&
    single.length !== 3 &&
    single.every((size, axis) => axis === 0 || size === multiple[axis]);
  return views >= 1 && multiple[0] === views * rows && canBePooled && (views === 1 || canBeJoined);
}

/** Of those with the same computation in front, the one with the fewest bytes; of equal ones the last, since it is behind an activation function. */
export function selectProposals(cuts: readonly CutPoint[]): CutPoint[] {
  const best = new Map<number, CutPoint>();
  for (const point of cuts) {
    const known = best.get(point.share);
    if (known === undefined || point.bytesPerRow <= known.bytesPerRow) best.set(point.share, point);
  }
  return [...best.values()];
}

const computeMacs = (model: Model, shapes: TensorShapes): number =>
  sumLayerCosts(computeLayerCosts(model, shapes)).macs;
const tensorBytes = (tensor: Tensor | undefined): number =>
  tensor === undefined || tensor.datatype === "BYTES" ? 0 : byteView(tensor.data).byteLength;
