// Triton's classification extension: instead of an output's numbers, the largest of each row by name.

import { protocolErrors } from "./errors.ts";
import type { Tensor } from "../core/tensor.ts";

/**
 * @param tensor of rank 1 or more; the first dimension is the batch
 * @param count of the largest values of a row, largest first; all where there are fewer
 * @param labels by index
 * @returns BYTES [batch, count], each `<value>:<index>` or `<value>:<index>:<label>`
 * @throws invalid_tensor for an output that holds no numbers
 */
export function encodeClassification(
  name: string,
  tensor: Tensor,
  count: number,
  labels?: readonly string[],
): Tensor {
  const [rows = 0] = tensor.shape;
  if (
    tensor.datatype === "BYTES" ||
    tensor.datatype === "BOOL" ||
    tensor.datatype === "FP16" ||
    tensor.datatype === "BF16" ||
    tensor.shape.length === 0
  ) {
    throw protocolErrors.unclassifiable(name, tensor.datatype, tensor.shape);
  }
  const values = tensor.data;
  const real = tensor.datatype === "FP32" || tensor.datatype === "FP64";
  const width = rows === 0 ? 0 : values.length / rows;
  const kept = Math.min(count, width);
  const encoder = new TextEncoder();
  const data = Array.from({ length: rows }, (_, row) => {
    const valueAt = (index: number) => Number(values[row * width + index]);
    const order = Array.from({ length: width }, (_value, index) => index).toSorted(
      (a, b) => valueAt(b) - valueAt(a) || a - b,
    );
    return order.slice(0, kept).map((index) => {
      const value = real ? valueAt(index).toFixed(6) : String(values[row * width + index]);
      const label = labels?.[index];
      return encoder.encode(
        label === undefined ? `${value}:${index}` : `${value}:${index}:${label}`,
      );
    });
  }).flat();
  return { datatype: "BYTES", shape: [rows, kept], data };
}
