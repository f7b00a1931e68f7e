// Cut points: finds the values at which a graph can be cut in two. For each it computes the share of the graph's work before
// the cut, and the bytes that cross it.

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
  /** Share of the graph's multiply-accumulate operations before the cut. */
  readonly share: number;
  /** Further inputs of the graph that the second stage needs, such as an attention mask. */
  readonly besides: readonly string[];
  /** Size of a row with the value in 8 bits and the inputs of `besides` unchanged. */
  readonly bytesPerRow: number;
}

/** Inputs that differ in every variable dimension: one row, and several rows of other lengths if the task has lengths. */
export interface ProbeInputs {
  readonly singleRow: NamedTensors;
  readonly multipleRows: NamedTensors;
}

/**
 * Finds values that have a poolable rank and the rows, or several views of each row, as their first dimension.
 * @returns cut points in the graph's order
 * @throws session_failed
 */
export async function findCuts(
  runtime: Runtime,
  model: Model,
  { singleRow, multipleRows }: ProbeInputs,
): Promise<CutPoint[]> {
  const singleShapes = await measureShapes(runtime, model, singleRow);
  const multipleShapes = await measureShapes(runtime, model, multipleRows);
  const rows = Object.values(multipleRows)[0]?.shape[0] ?? 1;
  const outputs = model.graph.output.map(({ name }) => name);
  const totalMacs = computeMacs(model, singleShapes);
  // If inputs differ in size, apparent views may be the concatenated tokens of all rows.
  const mayHaveViews = model.graph.input.every((input) =>
    readDeclaredDims(input)
      ?.slice(1)
      .every((size) => size !== undefined),
  );
  const candidates = findDominatingValues(model).filter((value) =>
    isPerRow(singleShapes.get(value) ?? [], multipleShapes.get(value) ?? [], rows, mayHaveViews),
  );
  const adjacent = await findAdjacentViews(
    runtime,
    model,
    candidates.filter((value) => viewsOf(singleShapes.get(value)) > 1),
    multipleRows,
  );
  return candidates.flatMap((value): CutPoint[] => {
    const single = singleShapes.get(value) ?? [];
    const multiple = multipleShapes.get(value) ?? [];
    const views = viewsOf(single);
    const macs = computeMacs(extractSubgraph(model, { outputs: [value] }), singleShapes);
    const share = macs / totalMacs;
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
        bytesPerRow:
          elements + besides.reduce((sum, name) => sum + tensorBytes(singleRow[name]), 0),
      },
    ];
  });
}

const viewsOf = (singleRowShape: readonly number[] | undefined): number => singleRowShape?.[0] ?? 1;

/** @param single shape for one row @param multiple shape for `rows` rows */
function isPerRow(
  single: readonly number[],
  multiple: readonly number[],
  rows: number,
  mayHaveViews: boolean,
): boolean {
  const views = viewsOf(single);
  const canBePooled = single.length === multiple.length && single.length >= 2 && single.length <= 4;
  // Views of tokens cannot be joined, because tokens are pooled with the inputs' mask, which has no views.
  const canBeJoined =
    mayHaveViews &&
    single.length !== 3 &&
    single.every((size, axis) => axis === 0 || size === multiple[axis]);
  return views >= 1 && multiple[0] === views * rows && canBePooled && (views === 1 || canBeJoined);
}

/**
 * Selects the cut with the fewest bytes among those with equal work before them. If several are equal, it selects the last,
 * because that one follows an activation function.
 */
export function selectProposals(cuts: readonly CutPoint[]): CutPoint[] {
  const bestByShare = new Map<number, CutPoint>();
  for (const cut of cuts) {
    const best = bestByShare.get(cut.share);
    if (best === undefined || cut.bytesPerRow <= best.bytesPerRow) bestByShare.set(cut.share, cut);
  }
  return [...bestByShare.values()];
}

const computeMacs = (model: Model, shapes: TensorShapes): number =>
  sumLayerCosts(computeLayerCosts(model, shapes)).macs;
const tensorBytes = (tensor: Tensor | undefined): number =>
  tensor === undefined || tensor.datatype === "BYTES" ? 0 : byteView(tensor.data).byteLength;
