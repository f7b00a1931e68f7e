// Embedding codec: encodes cached embeddings with all dimensions, so that a request for fewer dimensions finds them too.
// Layout: token count (uint32, little-endian), length of the tier's id (uint8), the id (UTF-8), the vector (FP32). All supported
// platforms are little-endian.

import type { ResultCodec } from "../cache/result-cache.ts";
import { byteView, concatBytes } from "../core/bytes.ts";

export interface Embedding {
  readonly vector: Float32Array;
  readonly tokenCount: number;
  readonly tier: string;
}

const HEADER_BYTES = 5;

export const embeddingCodec: ResultCodec<Embedding> = {
  encode({ vector, tokenCount, tier }) {
    const id = new TextEncoder().encode(tier);
    const header = new Uint8Array(HEADER_BYTES);
    const view = new DataView(header.buffer);
    view.setUint32(0, tokenCount, true);
    view.setUint8(4, id.byteLength); // manifests limit ids to 64 bytes
    return concatBytes([header, id, byteView(vector)]);
  },
  decode(bytes) {
    if (bytes.byteLength < HEADER_BYTES) return undefined;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const vectorAt = HEADER_BYTES + view.getUint8(4);
    const vector = bytes.slice(vectorAt).buffer; // a copy, for alignment
    if (vector.byteLength === 0 || vector.byteLength % Float32Array.BYTES_PER_ELEMENT !== 0)
      return undefined;
    const tier = new TextDecoder().decode(bytes.subarray(HEADER_BYTES, vectorAt));
    return { vector: new Float32Array(vector), tokenCount: view.getUint32(0, true), tier };
  },
};
