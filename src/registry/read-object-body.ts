// Reads an object's body into memory under a limit: what a store sends is not trusted to be as long as it said.

import { coreErrors } from "../core/common-errors.ts";
import { reasonOf } from "../core/errors.ts";
import { readLimited } from "../core/read-limited.ts";

/**
 * @param maxBytes the body may have; a longer one is cancelled.
 * @returns undefined for a body that is longer. What it returns may be shorter than the store said.
 * @throws model_store_unavailable where the connection breaks off.
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

/** The same for a body that must have exactly `size` bytes: written to its place at once, so that a large artifact is in memory once. */
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
  coreErrors.storeUnavailable(`the connection broke off: ${reasonOf(error)}`, error);
