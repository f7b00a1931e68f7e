// Rotates pixels without copying: computes the origin and the steps between pixels for an orientation.

import type { Orientation, Pixels } from "./image.ts";

export interface OrientedPixels {
  readonly data: Uint8Array;
  /** Width after rotation. */
  readonly width: number;
  readonly height: number;
  /** Offset of the top left pixel. */
  readonly origin: number;
  /** Offset from a pixel to its right neighbor; `stepY` is the offset to the pixel below. */
  readonly stepX: number;
  readonly stepY: number;
}

/** Transformation of each orientation: swap of rows and columns, mirrored columns, mirrored rows. */
const ORIENTATION_TRANSFORMS: Readonly<
  Record<Orientation, readonly [swaps: boolean, mirrorsColumns: boolean, mirrorsRows: boolean]>
> = {
  1: [false, false, false],
  2: [false, true, false],
  3: [false, true, true],
  4: [false, false, true],
  5: [true, false, false],
  6: [true, false, true],
  7: [true, true, true],
  8: [true, true, false],
};

export function orientPixels(
  { data, width, height, channels }: Pixels,
  orientation: Orientation,
): OrientedPixels {
  const [swaps, mirrorsColumns, mirrorsRows] = ORIENTATION_TRANSFORMS[orientation];
  const rowBytes = width * channels;
  const origin =
    (mirrorsColumns ? (width - 1) * channels : 0) + (mirrorsRows ? (height - 1) * rowBytes : 0);
  const column = mirrorsColumns ? -channels : channels;
  const row = mirrorsRows ? -rowBytes : rowBytes;
  return swaps
    ? { data, width: height, height: width, origin, stepX: row, stepY: column }
    : { data, width, height, origin, stepX: column, stepY: row };
}
