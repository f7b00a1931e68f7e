// Parses the chunks of a PNG file, from the first to the last (W3C, Portable Network Graphics, third edition).

import { concatBytes } from "../../core/bytes.ts";
import { parseExifOrientation } from "./exif.ts";
import type { ImageHeader, Orientation, ImageErrorFactory } from "./image.ts";

const SIGNATURE_BYTES = 8;
/** Size of a chunk's length, name and checksum. */
const CHUNK_OVERHEAD_BYTES = 12;
const MAX_CHUNK_BYTES = 0x7fff_ffff;
const MAX_CHUNKS = 65_536;
/** Allowed bit depths by color type. */
const BIT_DEPTHS: ReadonlyMap<number, readonly number[]> = new Map([
  [0, [1, 2, 4, 8, 16]],
  [2, [8, 16]],
  [3, [1, 2, 4, 8]],
  [4, [8, 16]],
  [6, [8, 16]],
]);
const PALETTE_COLOR_TYPE = 3;
/** Chunks that determine the pixels. */
const PIXEL_CHUNKS = ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"];
/** Measured maximum: RGB has 3 bytes per pixel, and the RGBA buffer that it is moved to has twice as many. */
const DECODER_BYTES_PER_PIXEL = 9;
const DECODER_BYTES = 2_097_152;

interface Chunk {
  readonly name: string;
  readonly data: DataView;
  /** Whole chunk, including length and checksum. */
  readonly bytes: Uint8Array;
}

/** @throws the errors of `errors`; RangeError for a truncated file */
export function parsePngHeader(bytes: Uint8Array, errors: ImageErrorFactory): ImageHeader {
  let size:
    | { readonly width: number; readonly height: number; readonly colorType: number }
    | undefined;
  let orientation: Orientation = 1;
  const seen = new Set<string>();
  let chunks = 0;
  for (const { name, data } of iterateChunks(bytes)) {
    if (++chunks > MAX_CHUNKS) throw errors.unsupported(`a PNG of more than ${MAX_CHUNKS} chunks`);
    if ((size === undefined) !== (name === "IHDR"))
      throw errors.invalid("IHDR is not its first chunk, or not the only one");
    if (name === "IHDR") size = parseIhdr(data, errors);
    if (name === "acTL") throw errors.unsupported("an animated PNG");
    if (name === "eXIf") orientation = parseExifOrientation(data);
    seen.add(name);
  }
  if (size === undefined || !seen.has("IDAT")) throw errors.invalid("it has no picture data");
  if (size.colorType === PALETTE_COLOR_TYPE && !seen.has("PLTE"))
    throw errors.invalid("it has no palette");
  const { width, height } = size;
  return {
    format: "png",
    width,
    height,
    orientation,
    decodingBytes: bytes.byteLength + width * height * DECODER_BYTES_PER_PIXEL + DECODER_BYTES,
  };
}

/**
 * Removes texts, profiles and other ancillary chunks, because a decoder would unpack their compressed contents.
 * @param bytes a file with a valid header
 */
export function stripAncillaryChunks(bytes: Uint8Array): Uint8Array {
  const chunks = [...iterateChunks(bytes)].filter(({ name }) => PIXEL_CHUNKS.includes(name));
  return concatBytes([bytes.subarray(0, SIGNATURE_BYTES), ...chunks.map((chunk) => chunk.bytes)]);
}

function* iterateChunks(bytes: Uint8Array): Generator<Chunk> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = SIGNATURE_BYTES; ;) {
    const length = view.getUint32(at);
    const end = at + CHUNK_OVERHEAD_BYTES + length;
    if (length > MAX_CHUNK_BYTES || end > bytes.byteLength) throw new RangeError("beyond the end");
    const name = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    yield {
      name,
      data: new DataView(bytes.buffer, bytes.byteOffset + at + 8, length),
      bytes: bytes.subarray(at, end),
    };
    if (name === "IEND") return;
    at = end;
  }
}

function parseIhdr(data: DataView, errors: ImageErrorFactory) {
  const [width, height] = [data.getUint32(0), data.getUint32(4)];
  const [depth, colorType, compression, filter, interlace] = [8, 9, 10, 11, 12].map((at) =>
    data.getUint8(at),
  );
  if (width === 0 || height === 0 || width > MAX_CHUNK_BYTES || height > MAX_CHUNK_BYTES)
    throw errors.invalid(`its size is ${width} x ${height}`);
  if (
    depth === undefined ||
    colorType === undefined ||
    BIT_DEPTHS.get(colorType)?.includes(depth) !== true
  )
    throw errors.invalid(`it has color type ${colorType} with ${depth} bits`);
  if (compression !== 0 || filter !== 0 || (interlace ?? 2) > 1)
    throw errors.invalid("its compression, filter or interlace method is unknown");
  return { width, height, colorType };
}
