// Parses the segments of a JPEG file, from the first to the last marker (ITU-T T.81, annex B).

import { parseExifOrientation } from "./exif.ts";
import type { ImageHeader, Orientation, ImageErrorFactory } from "./image.ts";

const [SOI, EOI, SOS, TEM, APP1] = [0xd8, 0xd9, 0xda, 0x01, 0xe1];
/** Frame types that web decoders support: baseline, extended and progressive, all with Huffman coding. */
const [SOF_BASELINE, SOF_EXTENDED, SOF_PROGRESSIVE] = [0xc0, 0xc1, 0xc2];
/** Markers between SOF0 and SOF15 that are not frames. */
const [DHT, JPG, DAC] = [0xc4, 0xc8, 0xcc];
const EXIF_SIGNATURE = [0x45, 0x78, 0x69, 0x66, 0, 0];

/** Limits the scans, because each one processes the whole picture. Encoders write up to about 20. */
const MAX_SCANS = 64;
const MAX_SEGMENTS = 65_536;
const BLOCK_BYTES = 64 * 2;
/** Memory for tables, rows and decoder state. */
const DECODER_BYTES = 1_048_576;

interface Frame {
  readonly width: number;
  readonly height: number;
  readonly isProgressive: boolean;
  /** Sampling factors of each component. */
  readonly sampling: readonly (readonly [horizontal: number, vertical: number])[];
}

/** @throws the errors of `errors`; RangeError for a truncated file */
export function parseJpegHeader(bytes: Uint8Array, errors: ImageErrorFactory): ImageHeader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let frame: Frame | undefined;
  let orientation: Orientation | undefined;
  let segments = 0;
  let scans = 0;
  let isInterleaved = true;

  for (let at = findMarker(bytes, 2); bytes[at] !== EOI; at = findMarker(bytes, at)) {
    const marker = view.getUint8(at++);
    if (marker === TEM || isRestart(marker)) continue;
    if (marker === SOI) throw errors.invalid("it contains a second picture");
    if (++segments > MAX_SEGMENTS)
      throw errors.unsupported(`a JPEG of more than ${MAX_SEGMENTS} segments`);
    const segment = readSegment(view, at, errors);
    if (isFrame(marker)) {
      if (frame !== undefined) throw errors.invalid("it has two frame headers");
      frame = readFrame(marker, segment, errors);
    } else if (
      marker === APP1 &&
      EXIF_SIGNATURE.every(
        (byte, index) => index < segment.byteLength && segment.getUint8(index) === byte,
      )
    ) {
      orientation ??= parseExifOrientation(subview(segment, EXIF_SIGNATURE.length));
    } else if (marker === SOS) {
      if (frame === undefined) throw errors.invalid("its scan precedes its frame header");
      if (++scans > MAX_SCANS) throw errors.unsupported(`a JPEG of more than ${MAX_SCANS} scans`);
      isInterleaved &&= segment.getUint8(0) === frame.sampling.length;
    }
    at += 2 + segment.byteLength;
    if (marker === SOS) at = findScanEnd(bytes, at);
  }
  if (frame === undefined || scans === 0) throw errors.invalid("it has no picture data");

  const { width, height, isProgressive } = frame;
  const coefficients = isProgressive || !isInterleaved ? computeCoefficientBytes(frame) : 0;
  return {
    format: "jpeg",
    width,
    height,
    orientation: orientation ?? 1,
    decodingBytes: bytes.byteLength + width * height * 3 + coefficients + DECODER_BYTES,
  };
}

const isRestart = (marker: number | undefined) =>
  marker !== undefined && marker >= 0xd0 && marker <= 0xd7;
const isFrame = (marker: number) =>
  marker >= 0xc0 && marker <= 0xcf && marker !== DHT && marker !== JPG && marker !== DAC;

/** Reads a segment's content, after its marker and length. */
function readSegment(view: DataView, at: number, errors: ImageErrorFactory): DataView {
  const length = view.getUint16(at);
  if (length < 2) throw errors.invalid("it has a segment without a length");
  return subview(view, at + 2, length - 2);
}

/** @throws RangeError beyond the end of the view */
const subview = (view: DataView, offset: number, length = view.byteLength - offset) =>
  new DataView(view.buffer, view.byteOffset + offset, checkWithinEnd(view, offset, length));

function checkWithinEnd(view: DataView, offset: number, length: number): number {
  if (offset + length > view.byteLength) throw new RangeError("beyond the end");
  return length;
}

function readFrame(marker: number, segment: DataView, errors: ImageErrorFactory): Frame {
  if (marker !== SOF_BASELINE && marker !== SOF_EXTENDED && marker !== SOF_PROGRESSIVE)
    throw errors.unsupported("a lossless, hierarchical or arithmetically coded JPEG");
  const bits = segment.getUint8(0);
  if (bits !== 8) throw errors.unsupported(`a JPEG of ${bits} bits`);
  const height = segment.getUint16(1);
  const width = segment.getUint16(3);
  if (width === 0 || height === 0) throw errors.invalid(`its size is ${width} x ${height}`);
  const components = segment.getUint8(5);
  if (components === 4) throw errors.unsupported("a CMYK JPEG");
  if (components !== 1 && components !== 3)
    throw errors.unsupported(`a JPEG of ${components} components`);
  const sampling = Array.from({ length: components }, (_, component) => {
    const factors = segment.getUint8(7 + component * 3);
    return [factors >> 4, factors & 15] as const;
  });
  if (sampling.flat().some((factor) => factor < 1 || factor > 4))
    throw errors.invalid("its sampling factors are not between 1 and 4");
  return { width, height, isProgressive: marker === SOF_PROGRESSIVE, sampling };
}

/** Computes the memory of the coefficients, which a picture with several scans keeps until the last scan. */
function computeCoefficientBytes({ width, height, sampling }: Frame): number {
  const columns = Math.ceil(width / (8 * Math.max(...sampling.map(([horizontal]) => horizontal))));
  const rows = Math.ceil(height / (8 * Math.max(...sampling.map(([, vertical]) => vertical))));
  return sampling.reduce(
    (sum, [horizontal, vertical]) => sum + columns * horizontal * rows * vertical * BLOCK_BYTES,
    0,
  );
}

/** Finds the second byte of the next marker, and skips other bytes, as decoders do. @throws RangeError */
function findMarker(bytes: Uint8Array, from: number): number {
  for (let at = from; at + 1 < bytes.length; at++) {
    if (bytes[at] === 0xff && bytes[at + 1] !== 0xff && bytes[at + 1] !== 0) return at + 1;
  }
  throw new RangeError("no marker");
}

/** Finds the start of the marker after a scan, and skips restart markers within it. @throws RangeError */
function findScanEnd(bytes: Uint8Array, from: number): number {
  for (let at = from; at + 1 < bytes.length; at++) {
    const next = bytes[at + 1];
    if (bytes[at] === 0xff && next !== 0 && next !== 0xff && !isRestart(next)) return at;
  }
  throw new RangeError("no marker after the scan");
}
