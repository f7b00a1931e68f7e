// Triton's classification extension: replaces an output's numbers by the largest values of each row, with labels.

import type { Tensor } from "../core/tensor.ts";
import { protocolErrors } from "./errors.ts";

/**
 * @param tensor has rank 1 or more; the first dimension is the batch
 * @param count number of values per row, largest first; at most all values of the row
 * @param labels label names, ordered by index
 * @returns BYTES [batch, count], each `<value>:<index>` or `<value>:<index>:<label>`
 * @throws invalid_tensor for a non-numeric output
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
  const isFloat = tensor.datatype === "FP32" || tensor.datatype === "FP64";
  const width = rows === 0 ? 0 : values.length / rows;
  const classCount = Math.min(count, width);
  const encoder = new TextEncoder();
  const data = Array.from({ length: rows }, (_, row) => {
    const valueAt = (index: number) => Number(values[row * width + index]);
    const order = Array.from({ length: width }, (_value, index) => index).toSorted(
      (a, b) => valueAt(b) - valueAt(a) || a - b,
    );
    return order.slice(0, classCount).map((index) => {
      const value = isFloat ? valueAt(index).toFixed(6) : String(values[row * width + index]);
      const label = labels?.[index];
      return encoder.encode(
        label === undefined ? `${value}:${index}` : `${value}:${index}:${label}`,
      );
    });
  }).flat();
  return { datatype: "BYTES", shape: [rows, classCount], data };
}
