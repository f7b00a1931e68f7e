// What a graph would cost cut in two at each value that it narrows to: the share of its computation in front of it, and the
// bytes that cross it.

import { bytesOf } from "../../core/bytes.ts";
import type { NamedTensors, Tensor } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { dimsOf } from "../import/adapt-inputs.ts";
import { cut } from "../onnx/cut.ts";
import type { Model } from "../onnx/model-file.ts";
import { costByLayer, totalCost } from "../prune/cost.ts";
import { measureShapes, type Shapes } from "../prune/shapes.ts";
import { narrowValues } from "./narrow-values.ts";
import { type ViewedPlace, withAdjacentViews } from "./views.ts";

export interface CutPoint extends ViewedPlace {
  /** Of the graph's multiply-accumulate operations: what comes before it. */
  readonly share: number;
  /** Inputs of the graph that what follows needs besides, such as an attention mask. */
  readonly besides: readonly string[];
  /** Of a row, with the value in 8 bits and `besides` as they are. */
  readonly bytesPerRow: number;
}

/** Requests that differ in everything that is not fixed: one row, and several, of other lengths where the task has such. */
export interface TrialInputs {
  readonly one: NamedTensors;
  readonly several: NamedTensors;
}

/**
 * Values of ranks that can be pooled, with the rows, or several views of each, as their first dimension, from the front of the graph
 * to its end.
 * @throws session_failed
 */
export async function findCuts(
  runtime: Runtime,
  model: Model,
  { one, several }: TrialInputs,
): Promise<CutPoint[]> {
  const [ofOne, ofSeveral] = [
    await measureShapes(runtime, model, one),
    await measureShapes(runtime, model, several),
  ];
  const rows = Object.values(several)[0]?.shape[0] ?? 1;
  const outputs = model.graph.output.map(({ name }) => name);
  const total = macsOf(model, ofOne);
  // Where inputs differ in size, what looks like views may be the tokens of all rows below each other.
  const mayHaveViews = model.graph.input.every((input) =>
    dimsOf(input)
      ?.slice(1)
      .every((size) => size !== undefined),
  );
  const byRow = narrowValues(model).filter((value) =>
    isByRow(ofOne.get(value) ?? [], ofSeveral.get(value) ?? [], rows, mayHaveViews),
  );
  const adjacent = await withAdjacentViews(
    runtime,
    model,
    byRow.filter((value) => viewsOf(ofOne.get(value)) > 1),
    several,
  );
  return byRow.flatMap((value): CutPoint[] => {
    const [single, multiple] = [ofOne.get(value) ?? [], ofSeveral.get(value) ?? []];
    const views = viewsOf(single);
    const share = macsOf(cut(model, { outputs: [value] }), ofOne) / total;
    if ((views > 1 && !adjacent.has(value)) || !(share > 0 && share < 1)) return [];
    const besides = cut(model, { inputs: [value], outputs })
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
        bytesPerRow: elements + besides.reduce((sum, name) => sum + sizeOf(one[name]), 0),
      },
    ];
  });
}

const viewsOf = (ofOneRow: readonly number[] | undefined): number => ofOneRow?.[0] ?? 1;

/** @param single shape for one row @param multiple shape for so many rows */
function isByRow(
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
export function proposals(cuts: readonly CutPoint[]): CutPoint[] {
  const best = new Map<number, CutPoint>();
  for (const point of cuts) {
    const known = best.get(point.share);
    if (known === undefined || point.bytesPerRow <= known.bytesPerRow) best.set(point.share, point);
  }
  return [...best.values()];
}

const macsOf = (model: Model, shapes: Shapes): number => totalCost(costByLayer(model, shapes)).macs;
const sizeOf = (tensor: Tensor | undefined): number =>
  tensor === undefined || tensor.datatype === "BYTES" ? 0 : bytesOf(tensor.data).byteLength;
