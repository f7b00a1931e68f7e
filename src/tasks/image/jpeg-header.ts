// Walks the segments of a JPEG file from its first to its last marker (ITU-T T.81, annex B).

import { parseExifOrientation } from "./exif.ts";
import type { ImageHeader, Orientation, ImageErrorFactory } from "./image.ts";

const [SOI, EOI, SOS, TEM, APP1] = [0xd8, 0xd9, 0xda, 0x01, 0xe1];
/** Baseline, extended and progressive, all in Huffman's code: what decoders of the web take. */
const [SOF_BASELINE, SOF_EXTENDED, SOF_PROGRESSIVE] = [0xc0, 0xc1, 0xc2];
/** Among SOF0 to SOF15, but no frames. */
const [DHT, JPG, DAC] = [0xc4, 0xc8, 0xcc];
const EXIF_SIGNATURE = [0x45, 0x78, 0x69, 0x66, 0, 0];

/** Each scan goes over the whole picture, however few its bytes are. Encoders make up to about 20. */
const MAX_SCANS = 64;
const MAX_SEGMENTS = 65_536;
const BLOCK_BYTES = 64 * 2;
/** Tables, rows and the decoder's own state. */
const DECODER_BYTES = 1_048_576;

interface Frame {
  readonly width: number;
  readonly height: number;
  readonly isProgressive: boolean;
  /** Sampling factors of each component. */
  readonly sampling: readonly (readonly [horizontal: number, vertical: number])[];
}

/** @throws what `refusal` makes; RangeError where the file ends too soon */
export function parseJpegHeader(bytes: Uint8Array, refusal: ImageErrorFactory): ImageHeader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let frame: Frame | undefined;
  let orientation: Orientation | undefined;
  let segments = 0;
  let scans = 0;
  let isInterleaved = true;

  for (let at = findMarker(bytes, 2); bytes[at] !== EOI; at = findMarker(bytes, at)) {
    const marker = view.getUint8(at++);
    if (marker === TEM || isRestart(marker)) continue;
    if (marker === SOI) throw refusal.invalid("a second picture begins inside it");
    if (++segments > MAX_SEGMENTS)
      throw refusal.unsupported(`a JPEG of more than ${MAX_SEGMENTS} segments`);
    const segment = readSegment(view, at, refusal);
    if (isFrame(marker)) {
      if (frame !== undefined) throw refusal.invalid("it gives its size twice");
      frame = readFrame(marker, segment, refusal);
    } else if (
      marker === APP1 &&
      EXIF_SIGNATURE.every(
        (byte, index) => index < segment.byteLength && segment.getUint8(index) === byte,
      )
    ) {
      orientation ??= parseExifOrientation(subview(segment, EXIF_SIGNATURE.length));
    } else if (marker === SOS) {
      if (frame === undefined) throw refusal.invalid("its picture comes before its size");
      if (++scans > MAX_SCANS) throw refusal.unsupported(`a JPEG of more than ${MAX_SCANS} scans`);
      isInterleaved &&= segment.getUint8(0) === frame.sampling.length;
    }
    at += 2 + segment.byteLength;
    if (marker === SOS) at = findScanEnd(bytes, at);
  }
  if (frame === undefined || scans === 0) throw refusal.invalid("it has no picture");

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

/** What follows a marker and its length. */
function readSegment(view: DataView, at: number, refusal: ImageErrorFactory): DataView {
  const length = view.getUint16(at);
  if (length < 2) throw refusal.invalid("it has a segment without a length");
  return subview(view, at + 2, length - 2);
}

/** @throws RangeError for what lies beyond the end */
const subview = (view: DataView, offset: number, length = view.byteLength - offset) =>
  new DataView(view.buffer, view.byteOffset + offset, checkWithinEnd(view, offset, length));

function checkWithinEnd(view: DataView, offset: number, length: number): number {
  if (offset + length > view.byteLength) throw new RangeError("beyond the end");
  return length;
}

function readFrame(marker: number, segment: DataView, refusal: ImageErrorFactory): Frame {
  if (marker !== SOF_BASELINE && marker !== SOF_EXTENDED && marker !== SOF_PROGRESSIVE)
    throw refusal.unsupported("a lossless, hierarchical or arithmetically coded JPEG");
  const bits = segment.getUint8(0);
  if (bits !== 8) throw refusal.unsupported(`a JPEG of ${bits} bits`);
  const height = segment.getUint16(1);
  const width = segment.getUint16(3);
  if (width === 0 || height === 0) throw refusal.invalid(`its size is ${width} x ${height}`);
  const components = segment.getUint8(5);
  if (components === 4) throw refusal.unsupported("a CMYK JPEG");
  if (components !== 1 && components !== 3)
    throw refusal.unsupported(`a JPEG of ${components} components`);
  const sampling = Array.from({ length: components }, (_, component) => {
    const factors = segment.getUint8(7 + component * 3);
    return [factors >> 4, factors & 15] as const;
  });
  if (sampling.flat().some((factor) => factor < 1 || factor > 4))
    throw refusal.invalid("its sampling factors are not from 1 to 4");
  return { width, height, isProgressive: marker === SOF_PROGRESSIVE, sampling };
}

/** What a picture of several scans takes until its last. */
function computeCoefficientBytes({ width, height, sampling }: Frame): number {
  const columns = Math.ceil(width / (8 * Math.max(...sampling.map(([horizontal]) => horizontal))));
  const rows = Math.ceil(height / (8 * Math.max(...sampling.map(([, vertical]) => vertical))));
  return sampling.reduce(
    (sum, [horizontal, vertical]) => sum + columns * horizontal * rows * vertical * BLOCK_BYTES,
    0,
  );
}

/** Where the next marker's second byte is; what lies before it is skipped, as decoders do. @throws RangeError */
function findMarker(bytes: Uint8Array, from: number): number {
  for (let at = from; at + 1 < bytes.length; at++) {
    if (bytes[at] === 0xff && bytes[at + 1] !== 0xff && bytes[at + 1] !== 0) return at + 1;
  }
  throw new RangeError("no marker");
}

/** Where the marker after a scan's data begins: none of those that stand within it. @throws RangeError */
function findScanEnd(bytes: Uint8Array, from: number): number {
  for (let at = from; at + 1 < bytes.length; at++) {
    const next = bytes[at + 1];
    if (bytes[at] === 0xff && next !== 0 && next !== 0xff && !isRestart(next)) return at;
  }
  throw new RangeError("no end of the scan");
}
