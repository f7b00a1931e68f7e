// Reads a body into memory up to a limit.

import { concatBytes } from "./bytes.ts";

/** @returns undefined once the body exceeds `maxBytes`; the rest is cancelled. @throws what the stream throws. */
export async function readAtMost(body: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (body === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > maxBytes) return undefined; // leaving the loop cancels the stream
    chunks.push(chunk);
  }
  return concatBytes(chunks);
}
