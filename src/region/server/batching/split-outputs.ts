// The outputs of a run, cut back into those of its works.

import type { NamedTensors, Tensor } from "../../../core/tensor.ts";
import { product } from "./merge-inputs.ts";

/** What a run's works had, in their order. */
export interface SplitPlan {
  readonly rowsPerRequest: readonly number[];
  readonly padding?: {
    readonly axis: number;
    readonly runLength: number;
    readonly lengths: readonly number[];
    /** Outputs that are cut back. */
    readonly outputs: ReadonlySet<string>;
  };
}

/** Why the outputs cannot be cut: they have no row for each of the run's, or are not as long as its inputs. */
export interface ShapeMismatch {
  readonly kind: "rows" | "length";
  readonly problem: string;
}

export function findShapeMismatch(
  outputs: NamedTensors,
  { rowsPerRequest: rowsOfEach, padding: padded }: SplitPlan,
): ShapeMismatch | undefined {
  const rows = rowsOfEach.reduce((sum, one) => sum + one, 0);
  for (const [name, { shape }] of Object.entries(outputs)) {
    const found = `output ${name} has shape [${shape.join(", ")}]`;
    if (rowsOfEach.length > 1 && shape[0] !== rows)
      return { kind: "rows", problem: `${found} for a batch of ${rows} rows` };
    if (padded?.outputs.has(name) === true && shape[padded.axis] !== padded.runLength)
      return { kind: "length", problem: `${found} for inputs padded to ${padded.runLength}` };
  }
  return undefined;
}

/** Each work's own part of the outputs: views, where nothing is cut from the ends of rows. */
export function splitOutputs(
  outputs: NamedTensors,
  { rowsPerRequest: rowsOfEach, padding: padded }: SplitPlan,
): NamedTensors[] {
  if (rowsOfEach.length === 1 && padded === undefined) return [outputs];
  const entries = Object.entries(outputs);
  let start = 0;
  return rowsOfEach.map((rows, index) => {
    const own = entries.map(([name, tensor]) => {
      const mine = rowsOfEach.length === 1 ? tensor : sliceRows(tensor, start, start + rows);
      return [
        name,
        padded?.outputs.has(name) === true
          ? trimAxis(mine, padded.axis, padded.lengths[index] ?? 0)
          : mine,
      ] as const;
    });
    start += rows;
    return Object.fromEntries(own);
  });
}

function sliceRows(tensor: Tensor, start: number, end: number): Tensor {
  const perRow = product(tensor.shape.slice(1));
  const shape = [end - start, ...tensor.shape.slice(1)];
  const data =
    tensor.datatype === "BYTES"
      ? tensor.data.slice(start * perRow, end * perRow)
      : tensor.data.subarray(start * perRow, end * perRow);
  return { datatype: tensor.datatype, shape, data } as Tensor;
}

/** The first `length` along an axis: a copy, as what is left does not lie in one piece. */
function trimAxis(tensor: Tensor, axis: number, length: number): Tensor {
  const { shape } = tensor;
  if (shape[axis] === length) return tensor;
  const inner = product(shape.slice(axis + 1));
  const [full, own] = [(shape[axis] ?? 0) * inner, length * inner];
  const blocks = Array.from({ length: product(shape.slice(0, axis)) }, (_, block) => block);
  const cut = shape.with(axis, length);
  if (tensor.datatype === "BYTES")
    return {
      datatype: "BYTES",
      shape: cut,
      data: blocks.flatMap((block) => tensor.data.slice(block * full, block * full + own)),
    };
  const data = tensor.data.slice(0, blocks.length * own);
  for (const block of blocks)
    data.set(tensor.data.subarray(block * full, block * full + own) as never, block * own);
  return { datatype: tensor.datatype, shape: cut, data } as Tensor;
}
