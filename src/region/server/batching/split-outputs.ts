// Splits the outputs of a run into those of its requests.

import type { NamedTensors, Tensor } from "../../../core/tensor.ts";
import { product } from "./merge-inputs.ts";

/** Rows and padding of a run's requests, in their order. */
export interface SplitPlan {
  readonly rowsPerRequest: readonly number[];
  readonly padding?: {
    readonly axis: number;
    readonly runLength: number;
    readonly lengths: readonly number[];
    /** Names of the outputs that are trimmed. */
    readonly outputs: ReadonlySet<string>;
  };
}

/** Why outputs cannot be split: they do not have one row per input row, or not the length of the padded inputs. */
export interface ShapeMismatch {
  readonly kind: "rows" | "length";
  readonly problem: string;
}

export function findShapeMismatch(
  outputs: NamedTensors,
  { rowsPerRequest, padding }: SplitPlan,
): ShapeMismatch | undefined {
  const rows = rowsPerRequest.reduce((sum, count) => sum + count, 0);
  for (const [name, { shape }] of Object.entries(outputs)) {
    const found = `output ${name} has shape [${shape.join(", ")}]`;
    if (rowsPerRequest.length > 1 && shape[0] !== rows)
      return { kind: "rows", problem: `${found} for a batch of ${rows} rows` };
    if (padding?.outputs.has(name) === true && shape[padding.axis] !== padding.runLength)
      return { kind: "length", problem: `${found} for inputs padded to ${padding.runLength}` };
  }
  return undefined;
}

/** Returns each request's part of the outputs: views, unless rows are trimmed. */
export function splitOutputs(
  outputs: NamedTensors,
  { rowsPerRequest, padding }: SplitPlan,
): NamedTensors[] {
  if (rowsPerRequest.length === 1 && padding === undefined) return [outputs];
  const entries = Object.entries(outputs);
  let start = 0;
  return rowsPerRequest.map((rows, index) => {
    const parts = entries.map(([name, tensor]) => {
      const part = rowsPerRequest.length === 1 ? tensor : sliceRows(tensor, start, start + rows);
      return [
        name,
        padding?.outputs.has(name) === true
          ? trimAxis(part, padding.axis, padding.lengths[index] ?? 0)
          : part,
      ] as const;
    });
    start += rows;
    return Object.fromEntries(parts);
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

/** Returns the first `length` elements along an axis: a copy, because they are not contiguous. */
function trimAxis(tensor: Tensor, axis: number, length: number): Tensor {
  const { shape } = tensor;
  if (shape[axis] === length) return tensor;
  const inner = product(shape.slice(axis + 1));
  const [fullCount, trimmedCount] = [(shape[axis] ?? 0) * inner, length * inner];
  const blocks = Array.from({ length: product(shape.slice(0, axis)) }, (_, block) => block);
  const trimmedShape = shape.with(axis, length);
  if (tensor.datatype === "BYTES")
    return {
      datatype: "BYTES",
      shape: trimmedShape,
      data: blocks.flatMap((block) =>
        tensor.data.slice(block * fullCount, block * fullCount + trimmedCount),
      ),
    };
  const data = tensor.data.slice(0, blocks.length * trimmedCount);
  for (const block of blocks)
    data.set(
      tensor.data.subarray(block * fullCount, block * fullCount + trimmedCount) as never,
      block * trimmedCount,
    );
  return { datatype: tensor.datatype, shape: trimmedShape, data } as Tensor;
}
