// How a value is stored outside the isolate: a header that says its format, and a digest over key and value. What was cut off,
// written by something else, or put under another key than its own counts as absent.

import { concatBytes } from "../core/bytes.ts";
import { encodeLengthPrefixed } from "../core/hash.ts";

/** "ET" and the format's number. */
const MAGIC = Uint8Array.of(0x45, 0x54, 1);
/** Of SHA-256: enough against accidents, and against values that were moved; who can write to the cache can make his own. */
const DIGEST_BYTES = 16;
const HEADER_BYTES = MAGIC.length + DIGEST_BYTES;

export async function encodeChecksummed(key: string, value: Uint8Array): Promise<Uint8Array> {
  return concatBytes([MAGIC, await computeDigest(key, value), value]);
}

/** @returns undefined for what `seal` did not make of this key */
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
