// Parses the header of an image file before decoding, so that broken, oversized and unsupported files are rejected cheaply.

import { taskErrors } from "../errors.ts";
import type { ImageHeader, ImageErrorFactory } from "./image.ts";
import { parseJpegHeader } from "./jpeg-header.ts";
import { parsePngHeader } from "./png-header.ts";

type FormatSignature = readonly [format: string, offset: number, magic: string];

/** Signatures of unsupported formats, for messages with the format's name. */
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
 * @param index position of the input, for messages
 * @throws invalid_image, unsupported_image
 */
export function parseImageHeader(bytes: Uint8Array, index: number): ImageHeader {
  const errors: ImageErrorFactory = {
    invalid: (reason) => taskErrors.invalidImage(index, reason),
    unsupported: (description) => taskErrors.unsupportedImage(index, description),
  };
  const format = detectImageFormat(bytes);
  if (format === undefined) {
    const other = UNSUPPORTED_FORMATS.find(([, offset, magic]) => startsWith(bytes, magic, offset));
    throw other === undefined
      ? errors.invalid(bytes.byteLength === 0 ? "it is empty" : "it has no JPEG or PNG signature")
      : errors.unsupported(other[0]);
  }
  try {
    return format === "jpeg" ? parseJpegHeader(bytes, errors) : parsePngHeader(bytes, errors);
  } catch (error) {
    // A DataView throws a RangeError beyond its end.
    throw error instanceof RangeError ? errors.invalid("it is truncated") : error;
  }
}

/** Detects the format by the first bytes. */
export function detectImageFormat(bytes: Uint8Array): ImageHeader["format"] | undefined {
  if (startsWith(bytes, JPEG_MAGIC)) return "jpeg";
  return startsWith(bytes, PNG_MAGIC) ? "png" : undefined;
}

function startsWith(bytes: Uint8Array, magic: string, offset = 0): boolean {
  for (let at = 0; at < magic.length; at++)
    if (bytes[offset + at] !== magic.charCodeAt(at)) return false;
  return true;
}
