// Pixels as an orientation turns them, without moving any: where the first one is, and how far it is to the next.

import type { Orientation, Pixels } from "./image.ts";

export interface OrientedPixels {
  readonly data: Uint8Array;
  /** After turning. */
  readonly width: number;
  readonly height: number;
  /** Of the pixel at the top left. */
  readonly origin: number;
  /** From a pixel to the one on its right, and to the one below it. */
  readonly stepX: number;
  readonly stepY: number;
}

/** For each orientation: whether rows become columns, and whether stored columns and rows run backwards. */
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
