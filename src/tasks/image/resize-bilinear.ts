// Resizes images bit-exactly like Pillow's Image.BILINEAR: a triangle filter that widens when the image shrinks, so that
// every pixel counts. It filters rows first, then columns, and rounds each pass to 8 bits; weights are multiples of 2^-22.
// Pillow 13 may filter columns first, as does Pillow 12 for images a hundred times as high as wide. The results then
// differ by at most 1 of 255.

import type { OrientedPixels } from "./oriented-pixels.ts";

/** Part of an image, in pixels; edges may be fractional. */
export interface CropBox {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

const PRECISION_BITS = 22;
const ROUNDING_OFFSET = 1 << (PRECISION_BITS - 1);

/** Source pixels of each output pixel of a line, with their weights. */
interface FilterWeights {
  readonly first: Int32Array;
  readonly count: Int32Array;
  /** Weights, `stride` per output pixel. */
  readonly weights: Int32Array;
  readonly stride: number;
}

/** @returns red, green and blue of each pixel, row by row */
export function resizeBilinear(
  image: OrientedPixels,
  box: CropBox,
  width: number,
  height: number,
): Uint8Array {
  const columns = computeFilterWeights(image.width, box.left, box.width, width);
  const rows = computeFilterWeights(image.height, box.top, box.height, height);
  const top = rows.first[0] ?? 0;
  const bottom = (rows.first[height - 1] ?? 0) + (rows.count[height - 1] ?? 0);
  return resizeColumns(resizeRows(image, top, bottom, columns, width), top, rows, width, height);
}

/** @param size length of the line @param from start of the cropped part, which has the given `length` */
function computeFilterWeights(
  size: number,
  from: number,
  length: number,
  outSize: number,
): FilterWeights {
  const start = Math.fround(from); // Pillow stores the edges of a box in 32 bits
  const scale = Math.fround(Math.fround(from + length) - start) / outSize;
  const support = Math.max(scale, 1);
  const narrowing = 1 / support;
  const stride = Math.ceil(support) * 2 + 1;
  const first = new Int32Array(outSize);
  const count = new Int32Array(outSize);
  const weights = new Int32Array(outSize * stride);
  for (let out = 0; out < outSize; out++) {
    const center = start + (out + 0.5) * scale;
    const begin = Math.max(0, Math.trunc(center - support + 0.5));
    const end = Math.min(size, Math.trunc(center + support + 0.5));
    const exact = Array.from({ length: end - begin }, (_, index) =>
      triangleFilter((index + begin - center + 0.5) * narrowing),
    );
    const sum = exact.reduce((total, weight) => total + weight, 0);
    first[out] = begin;
    count[out] = end - begin;
    exact.forEach((weight, index) => {
      weights[out * stride + index] = Math.trunc(0.5 + (weight / sum) * (1 << PRECISION_BITS));
    });
  }
  return { first, count, weights, stride };
}

const triangleFilter = (distance: number) => Math.max(0, 1 - Math.abs(distance));

/** Filters the rows from `top` up to `bottom` to `width` pixels each. */
function resizeRows(
  { data, origin, stepX, stepY }: OrientedPixels,
  top: number,
  bottom: number,
  { first, count, weights, stride }: FilterWeights,
  width: number,
): Uint8Array {
  const rows = new Uint8Array((bottom - top) * width * 3);
  let to = 0;
  for (let y = top; y < bottom; y++) {
    const row = origin + y * stepY;
    for (let x = 0; x < width; x++) {
      let at = row + (first[x] ?? 0) * stepX;
      let [red, green, blue] = [ROUNDING_OFFSET, ROUNDING_OFFSET, ROUNDING_OFFSET];
      const start = x * stride;
      const end = start + (count[x] ?? 0);
      for (let index = start; index < end; index++, at += stepX) {
        const weight = weights[index] ?? 0;
        red += (data[at] ?? 0) * weight;
        green += (data[at + 1] ?? 0) * weight;
        blue += (data[at + 2] ?? 0) * weight;
      }
      rows[to++] = red >> PRECISION_BITS;
      rows[to++] = green >> PRECISION_BITS;
      rows[to++] = blue >> PRECISION_BITS;
    }
  }
  return rows;
}

/** @param top image row of the first element of `rows` */
function resizeColumns(
  rows: Uint8Array,
  top: number,
  { first, count, weights, stride }: FilterWeights,
  width: number,
  height: number,
): Uint8Array {
  const rowBytes = width * 3;
  const out = new Uint8Array(height * rowBytes);
  for (let y = 0; y < height; y++) {
    const row = ((first[y] ?? 0) - top) * rowBytes;
    const start = y * stride;
    const end = start + (count[y] ?? 0);
    for (let byte = 0; byte < rowBytes; byte++) {
      let sum = ROUNDING_OFFSET;
      for (let index = start, at = row + byte; index < end; index++, at += rowBytes)
        sum += (rows[at] ?? 0) * (weights[index] ?? 0);
      out[y * rowBytes + byte] = sum >> PRECISION_BITS;
    }
  }
  return out;
}
