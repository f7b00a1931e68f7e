// Parses the orientation from a photo's EXIF data (EXIF 2.3, tag 0x0112).

import type { Orientation } from "./image.ts";

const ORIENTATION_TAG = 0x0112;
const SHORT_TYPE = 3;
const ENTRY_BYTES = 12;
const LITTLE_ENDIAN = 0x4949; // "II"
const BIG_ENDIAN = 0x4d4d; // "MM"

/** @param tiff bytes after "Exif\0\0" in a JPEG, or a PNG's eXIf chunk @returns 1 for missing or unreadable data */
export function parseExifOrientation(tiff: DataView): Orientation {
  try {
    const order = tiff.getUint16(0);
    if (order !== LITTLE_ENDIAN && order !== BIG_ENDIAN) return 1;
    const isLittleEndian = order === LITTLE_ENDIAN;
    const directory = tiff.getUint32(4, isLittleEndian);
    const entries = tiff.getUint16(directory, isLittleEndian);
    for (let entry = 0; entry < entries; entry++) {
      const offset = directory + 2 + entry * ENTRY_BYTES;
      if (tiff.getUint16(offset, isLittleEndian) !== ORIENTATION_TAG) continue;
      const isShort = tiff.getUint16(offset + 2, isLittleEndian) === SHORT_TYPE;
      const value = isShort ? tiff.getUint16(offset + 8, isLittleEndian) : 1;
      return isOrientation(value) ? value : 1;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // a DataView throws it beyond its end
  }
  return 1;
}

const isOrientation = (value: number): value is Orientation => value >= 1 && value <= 8;
