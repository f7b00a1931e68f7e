// How an embedding is cached: with all its dimensions, so that a request for fewer finds it too.
// Layout: tokens (uint32, little-endian), length of the tier's id (uint8), the id (UTF-8), the vector (FP32, little-endian as
// every platform that this runs on).

import type { ResultCodec } from "../cache/result-cache.ts";
import { byteView, concatBytes } from "../core/bytes.ts";

export interface Embedding {
  readonly vector: Float32Array;
  readonly tokenCount: number;
  readonly tier: string;
}

const HEADER_BYTES = 5;

export const embeddingCodec: ResultCodec<Embedding> = {
  encode({ vector, tokenCount: tokens, tier }) {
    const id = new TextEncoder().encode(tier);
    const header = new Uint8Array(HEADER_BYTES);
    const view = new DataView(header.buffer);
    view.setUint32(0, tokens, true);
    view.setUint8(4, id.byteLength); // a manifest's ids have at most 64 bytes
    return concatBytes([header, id, byteView(vector)]);
  },
  decode(bytes) {
    if (bytes.byteLength < HEADER_BYTES) return undefined;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const vectorAt = HEADER_BYTES + view.getUint8(4);
    const vector = bytes.slice(vectorAt).buffer; // aligned
    if (vector.byteLength === 0 || vector.byteLength % Float32Array.BYTES_PER_ELEMENT !== 0)
      return undefined;
    const tier = new TextDecoder().decode(bytes.subarray(HEADER_BYTES, vectorAt));
    return { vector: new Float32Array(vector), tokenCount: view.getUint32(0, true), tier };
  },
};
