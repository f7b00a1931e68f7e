// Encodes values for stores outside the isolate: a format header, a digest over key and value, and the value. A value
// counts as absent if it is truncated, has a foreign format, or is stored under another key.

import { concatBytes } from "../core/bytes.ts";
import { encodeLengthPrefixed } from "../core/hash.ts";

/** "ET" and the format number. */
const MAGIC = Uint8Array.of(0x45, 0x54, 1);
/**
 * Stored part of the SHA-256 digest. It detects accidents and moved values, but not forgery: a writer to the cache can
 * compute valid digests.
 */
const DIGEST_BYTES = 16;
const HEADER_BYTES = MAGIC.length + DIGEST_BYTES;

export async function encodeChecksummed(key: string, value: Uint8Array): Promise<Uint8Array> {
  return concatBytes([MAGIC, await computeDigest(key, value), value]);
}

/** @returns undefined for bytes that `encodeChecksummed` did not make for this key */
export async function decodeChecksummed(
  key: string,
  stored: Uint8Array,
): Promise<Uint8Array | undefined> {
  if (stored.length < HEADER_BYTES || !areEqualBytes(stored.subarray(0, MAGIC.length), MAGIC))
    return undefined;
  const value = stored.subarray(HEADER_BYTES);
  return areEqualBytes(stored.subarray(MAGIC.length, HEADER_BYTES), await computeDigest(key, value))
    ? value
    : undefined;
}

async function computeDigest(key: string, value: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(
    await crypto.subtle.digest("SHA-256", encodeLengthPrefixed([key, value])),
    0,
    DIGEST_BYTES,
  );
}

const areEqualBytes = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index]);
