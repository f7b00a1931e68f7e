// What a graph would cost cut in two at each value that it narrows to: the share of its computation in front of it, and the
// bytes that cross it.

import { bytesOf } from "../../core/bytes.ts";
import type { NamedTensors, Tensor } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { cut } from "../onnx/cut.ts";
import type { Model } from "../onnx/model-file.ts";
import { costByLayer, totalCost } from "../prune/cost.ts";
import { measureShapes, type Shapes } from "../prune/shapes.ts";
import { narrowValues } from "./narrow-values.ts";

export interface CutPoint {
  /** Its name in the graph. */
  readonly value: string;
  /** Of the graph's multiply-accumulate operations: what comes before it. */
  readonly share: number;
  /** -1 for rows, and for what differed between the requests that it was measured with. */
  readonly shape: readonly number[];
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
 * Values of ranks that can be pooled, with the rows as their first dimension, from the front of the graph to its end.
 * @throws session_failed
 */
export async function findCuts(runtime: Runtime, model: Model, { one, several }: TrialInputs): Promise<CutPoint[]> {
  const [ofOne, ofSeveral] = [await measureShapes(runtime, model, one), await measureShapes(runtime, model, several)];
  const rows = Object.values(several)[0]?.shape[0] ?? 1;
  const outputs = model.graph.output.map(({ name }) => name);
  const total = macsOf(model, ofOne);
  return narrowValues(model).flatMap((value): CutPoint[] => {
    const [single, multiple] = [ofOne.get(value) ?? [], ofSeveral.get(value) ?? []];
    const isByRow = single[0] === 1 && multiple[0] === rows && multiple.length === single.length && single.length >= 2 && single.length <= 4;
    const share = macsOf(cut(model, { outputs: [value] }), ofOne) / total;
    if (!isByRow || !(share > 0 && share < 1)) return [];
    const besides = cut(model, { inputs: [value], outputs }).graph.input.map(({ name }) => name).filter((name) => name !== value);
    const elements = single.reduce((product, size) => product * size, 1);
    return [
      {
        value,
        share,
        shape: single.map((size, axis) => (axis === 0 || size !== multiple[axis] ? -1 : size)),
        besides,
        bytesPerRow: elements + besides.reduce((sum, name) => sum + sizeOf(one[name]), 0),
      },
    ];
  });
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
const sizeOf = (tensor: Tensor | undefined): number => (tensor === undefined || tensor.datatype === "BYTES" ? 0 : bytesOf(tensor.data).byteLength);
