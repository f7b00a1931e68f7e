// Walks the chunks of a PNG file from its first to its last (W3C, Portable Network Graphics, third edition).

import { concatBytes } from "../../core/bytes.ts";
import { parseExifOrientation } from "./exif.ts";
import type { ImageHeader, Orientation, ImageErrorFactory } from "./image.ts";

const SIGNATURE_BYTES = 8;
/** Length, name and checksum around a chunk's data. */
const CHUNK_OVERHEAD_BYTES = 12;
const MAX_CHUNK_BYTES = 0x7fff_ffff;
const MAX_CHUNKS = 65_536;
/** Bits of a sample by colour type. */
const BIT_DEPTHS: ReadonlyMap<number, readonly number[]> = new Map([
  [0, [1, 2, 4, 8, 16]],
  [2, [8, 16]],
  [3, [1, 2, 4, 8]],
  [4, [8, 16]],
  [6, [8, 16]],
]);
const PALETTE_COLOR_TYPE = 3;
/** What the picture's pixels depend on. */
const PIXEL_CHUNKS = ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"];
/** At most, measured: RGB is 3, and the buffer for RGBA that it is moved to has twice as many. */
const DECODER_BYTES_PER_PIXEL = 9;
const DECODER_BYTES = 2_097_152;

interface Chunk {
  readonly name: string;
  readonly data: DataView;
  /** With length and checksum. */
  readonly bytes: Uint8Array;
}

/** @throws what `refusal` makes; RangeError where the file ends too soon */
export function parsePngHeader(bytes: Uint8Array, refusal: ImageErrorFactory): ImageHeader {
  let size:
    | { readonly width: number; readonly height: number; readonly colourType: number }
    | undefined;
  let orientation: Orientation = 1;
  const seen = new Set<string>();
  let chunks = 0;
  for (const { name, data } of iterateChunks(bytes)) {
    if (++chunks > MAX_CHUNKS) throw refusal.unsupported(`a PNG of more than ${MAX_CHUNKS} chunks`);
    if ((size === undefined) !== (name === "IHDR"))
      throw refusal.invalid("its size does not come first, and once");
    if (name === "IHDR") size = parseIhdr(data, refusal);
    if (name === "acTL") throw refusal.unsupported("an animated PNG");
    if (name === "eXIf") orientation = parseExifOrientation(data);
    seen.add(name);
  }
  if (size === undefined || !seen.has("IDAT")) throw refusal.invalid("it has no picture");
  if (size.colourType === PALETTE_COLOR_TYPE && !seen.has("PLTE"))
    throw refusal.invalid("it has no palette");
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
 * The same picture without texts, profiles and the like, whose compressed contents a decoder would unpack.
 * @param bytes of a file whose header has been read
 */
export function stripAncillaryChunks(bytes: Uint8Array): Uint8Array {
  const kept = [...iterateChunks(bytes)].filter(({ name }) => PIXEL_CHUNKS.includes(name));
  return concatBytes([
    bytes.subarray(0, SIGNATURE_BYTES),
    ...kept.map(({ bytes: whole }) => whole),
  ]);
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

function parseIhdr(data: DataView, refusal: ImageErrorFactory) {
  const [width, height] = [data.getUint32(0), data.getUint32(4)];
  const [depth, colourType, compression, filter, interlace] = [8, 9, 10, 11, 12].map((at) =>
    data.getUint8(at),
  );
  if (width === 0 || height === 0 || width > MAX_CHUNK_BYTES || height > MAX_CHUNK_BYTES)
    throw refusal.invalid(`its size is ${width} x ${height}`);
  if (
    depth === undefined ||
    colourType === undefined ||
    BIT_DEPTHS.get(colourType)?.includes(depth) !== true
  )
    throw refusal.invalid(`it has colour type ${colourType} with ${depth} bits`);
  if (compression !== 0 || filter !== 0 || (interlace ?? 2) > 1)
    throw refusal.invalid("it is coded in an unknown way");
  return { width, height, colourType };
}
