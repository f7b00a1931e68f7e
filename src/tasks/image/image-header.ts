// What an image file says of itself, read before a decoder sees any of it: so that what is broken, too large or of another
// kind costs nothing.

import { taskErrors } from "../errors.ts";
import type { ImageHeader, ImageErrorFactory } from "./image.ts";
import { parseJpegHeader } from "./jpeg-header.ts";
import { parsePngHeader } from "./png-header.ts";

type FormatSignature = readonly [what: string, offset: number, magic: string];

/** Of other formats, by what stands at their beginning: to call them by their names. */
const UNSUPPORTED_FORMATS: readonly FormatSignature[] = [
  ["a GIF", 0, "GIF8"],
  ["a WebP", 8, "WEBP"],
  ["a BMP", 0, "BM"],
  ["a TIFF", 0, "II*\0"],
  ["a TIFF", 0, "MM\0*"],
  ["an AVIF or HEIC", 4, "ftyp"],
  ["a JPEG XL", 4, "JXL "],
  ["a JPEG XL", 0, "\xff\x0a"],
  ["a JPEG 2000", 4, "jP  "],
  ["a PDF", 0, "%PDF"],
];
const JPEG_MAGIC = "\xff\xd8\xff";
const PNG_MAGIC = "\x89PNG\r\n\x1a\n";

/**
 * @param index of the input, for messages
 * @throws invalid_image, unsupported_image
 */
export function parseImageHeader(bytes: Uint8Array, index: number): ImageHeader {
  const refusal: ImageErrorFactory = {
    invalid: (reason) => taskErrors.invalidImage(index, reason),
    unsupported: (what) => taskErrors.unsupportedImage(index, what),
  };
  const format = detectImageFormat(bytes);
  if (format === undefined) {
    const other = UNSUPPORTED_FORMATS.find(([, offset, magic]) => startsWith(bytes, magic, offset));
    throw other === undefined
      ? refusal.invalid(bytes.byteLength === 0 ? "it is empty" : "it begins like no JPEG or PNG")
      : refusal.unsupported(other[0]);
  }
  try {
    return format === "jpeg" ? parseJpegHeader(bytes, refusal) : parsePngHeader(bytes, refusal);
  } catch (error) {
    // A DataView's, for what lies beyond its end.
    throw error instanceof RangeError ? refusal.invalid("it ends too soon") : error;
  }
}

/** By its first bytes. */
export function detectImageFormat(bytes: Uint8Array): ImageHeader["format"] | undefined {
  if (startsWith(bytes, JPEG_MAGIC)) return "jpeg";
  return startsWith(bytes, PNG_MAGIC) ? "png" : undefined;
}

function startsWith(bytes: Uint8Array, magic: string, offset = 0): boolean {
  for (let at = 0; at < magic.length; at++)
    if (bytes[offset + at] !== magic.charCodeAt(at)) return false;
  return true;
}
