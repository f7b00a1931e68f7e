// API key format: a prefix that secret scanners can find, 256 random bits and a checksum. The checksum distinguishes a truncated
// or mistyped key from an unknown one without a lookup. Only the SHA-256 of a key is stored. A slow hash is unnecessary,
// because the key is random.

import { sha256Hex } from "../../core/hash.ts";
import type { Principal } from "./authenticator.ts";

/** Stored form of a key: its principal and hash. */
export interface ApiKeyEntry extends Principal {
  /** Hash of the key, in lower-case hex. */
  readonly sha256: string;
  /** The key is rejected from this time on. */
  readonly expiresAtMs?: number | undefined;
}

const PREFIX = "edgetier_";
const RANDOM_BYTES = 32;
const RANDOM_DIGITS = 43; // 62 ** 43 > 2 ** 256
const CHECKSUM_DIGITS = 6; // 62 ** 6 > 2 ** 32
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const API_KEY_PATTERN = new RegExp(`^${PREFIX}[0-9A-Za-z]{${RANDOM_DIGITS + CHECKSUM_DIGITS}}$`);

const encoder = new TextEncoder();

export function generateApiKey(): string {
  let value = 0n;
  for (const byte of crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)))
    value = value * 256n + BigInt(byte);
  const body = PREFIX + toBase62(value, RANDOM_DIGITS);
  return body + computeChecksum(body);
}

export const hasApiKeyPrefix = (credential: string): boolean => credential.startsWith(PREFIX);

/** Whether the credential has the format of a key and a correct checksum. */
export function isWellFormedApiKey(credential: string): boolean {
  return (
    API_KEY_PATTERN.test(credential) &&
    credential.slice(-CHECKSUM_DIGITS) === computeChecksum(credential.slice(0, -CHECKSUM_DIGITS))
  );
}

/** SHA-256 of a key, in hex. */
export const hashApiKey = async (key: string): Promise<string> =>
  await sha256Hex(encoder.encode(key));

const computeChecksum = (body: string): string =>
  toBase62(BigInt(crc32(encoder.encode(body))), CHECKSUM_DIGITS);

function toBase62(value: bigint, digits: number): string {
  let text = "";
  for (let rest = value; text.length < digits; rest /= 62n)
    text = DIGITS.charAt(Number(rest % 62n)) + text;
  return text;
}

function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}
