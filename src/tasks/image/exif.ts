// The orientation that a camera notes in a photo's EXIF data (EXIF 2.3, tag 0x0112).

import type { Orientation } from "./image.ts";

const ORIENTATION_TAG = 0x0112;
const SHORT_TYPE = 3;
const ENTRY_BYTES = 12;
const LITTLE_ENDIAN = 0x4949; // "II"
const BIG_ENDIAN = 0x4d4d; // "MM"

/** @param tiff what follows "Exif\0\0" in a JPEG, or a PNG's eXIf chunk @returns 1 where it says nothing that can be read */
export function parseExifOrientation(tiff: DataView): Orientation {
  try {
    const order = tiff.getUint16(0);
    if (order !== LITTLE_ENDIAN && order !== BIG_ENDIAN) return 1;
    const little = order === LITTLE_ENDIAN;
    const directory = tiff.getUint32(4, little);
    const entries = tiff.getUint16(directory, little);
    for (let entry = 0; entry < entries; entry++) {
      const at = directory + 2 + entry * ENTRY_BYTES;
      if (tiff.getUint16(at, little) !== ORIENTATION_TAG) continue;
      const value =
        tiff.getUint16(at + 2, little) === SHORT_TYPE ? tiff.getUint16(at + 8, little) : 1;
      return isOrientation(value) ? value : 1;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // a DataView's, for what lies beyond its end
  }
  return 1;
}

const isOrientation = (value: number): value is Orientation => value >= 1 && value <= 8;
