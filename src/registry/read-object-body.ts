// Reads an object's body into memory up to a limit, because the size that a store reports is not trusted.

import { coreErrors } from "../core/common-errors.ts";
import { reasonOf } from "../core/errors.ts";
import { readLimited } from "../core/read-limited.ts";

/**
 * @param maxBytes maximum size; a longer body is cancelled
 * @returns undefined for a body that is too long; the result may be shorter than the store reported
 * @throws model_store_unavailable if the connection breaks
 */
export async function readObjectBody(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    return await readLimited(body, maxBytes);
  } catch (error) {
    throw createConnectionError(error);
  }
}

/** Reads a body of exactly `size` bytes into its final buffer, so that a large artifact is in memory only once. */
export async function readExactBytes(
  body: ReadableStream<Uint8Array>,
  size: number,
): Promise<{ bytes: Uint8Array<ArrayBuffer>; received: number }> {
  const bytes = new Uint8Array(size);
  let received = 0;
  try {
    for await (const chunk of body) {
      const end = received + chunk.byteLength;
      if (end <= size) bytes.set(chunk, received);
      received = end;
      if (received > size) break;
    }
  } catch (error) {
    throw createConnectionError(error);
  }
  return { bytes, received };
}

const createConnectionError = (error: unknown) =>
  coreErrors.storeUnavailable(`the connection broke: ${reasonOf(error)}`, error);
