// Reads a body into memory up to a limit, however small the pieces are that it comes in: what is kept is its bytes, not its pieces.

const FIRST_BYTES = 16_384;

/** @returns undefined once the body exceeds `maxBytes`; the rest is cancelled. @throws what the stream throws. */
export async function readAtMost(body: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
  let bytes = new Uint8Array();
  if (body === null) return bytes;
  let size = 0;
  for await (const chunk of body) {
    const end = size + chunk.byteLength;
    if (end > maxBytes) return undefined; // leaving the loop cancels the stream
    if (end > bytes.byteLength) {
      const grown = new Uint8Array(Math.min(maxBytes, Math.max(end, 2 * size, FIRST_BYTES)));
      grown.set(bytes.subarray(0, size));
      bytes = grown;
    }
    bytes.set(chunk, size);
    size = end;
  }
  return size === bytes.byteLength ? bytes : bytes.slice(0, size);
}
