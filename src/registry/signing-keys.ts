// Parses and generates the Ed25519 keys of manifests. Public keys are comma-separated, each 32 bytes in base64. Private
// keys are in PKCS #8, as PEM or as its bare base64.

import * as z from "zod";
import { fromBase64, toBase64 } from "../core/base64.ts";
import { sha256Hex } from "../core/hash.ts";

export const MANIFEST_KEY_ALGORITHM = "Ed25519";

const PUBLIC_KEY_BYTES = 32;
const PEM_PATTERN = /-----BEGIN PRIVATE KEY-----([^-]*)-----END PRIVATE KEY-----/;
const PEM_LINE_PATTERN = /.{1,64}/g;

/** An Ed25519 public key of 32 bytes. */
export type PublicKey = Uint8Array<ArrayBuffer>;

export interface SigningKey {
  /** Key id of the public key. */
  readonly id: string;
  readonly publicKey: PublicKey;
  readonly privateKey: CryptoKey;
}

/** Schema of a variable with public keys. It rejects the whole list if one key is invalid, and it rejects an empty list. */
const publicKeysVariable = z.string().transform((text, context): PublicKey[] => {
  const keys = text.split(",").map((part) => fromBase64(part));
  const isKey = (key: PublicKey | undefined): key is PublicKey =>
    key?.byteLength === PUBLIC_KEY_BYTES;
  if (keys.every(isKey)) return keys;
  context.addIssue({
    code: "custom",
    message: `must be comma-separated public keys, each ${PUBLIC_KEY_BYTES} bytes in base64; \`edgetier model keys\` shows them`,
  });
  return z.NEVER;
});

/** Part of the configuration schema of every program that reads models. */
export const trustVariableSchemas = {
  /** Keys that may sign manifests; without the variable, any manifest is trusted. */
  EDGETIER_TRUSTED_KEYS: publicKeysVariable.optional(),
};

/** Computes the key id: the first 16 hex digits of the key's SHA-256. */
export async function computeKeyId(publicKey: PublicKey): Promise<string> {
  return (await sha256Hex(publicKey)).slice(0, 16);
}

/** Formats keys for EDGETIER_TRUSTED_KEYS. */
export const formatPublicKeys = (keys: readonly PublicKey[]): string =>
  keys.map(toBase64).join(",");

/** @returns undefined if the text is not an Ed25519 private key */
export async function parseSigningKey(text: string): Promise<SigningKey | undefined> {
  const bytes = fromBase64(PEM_PATTERN.exec(text)?.[1] ?? text);
  if (bytes === undefined) return undefined;
  try {
    const key = await crypto.subtle.importKey("pkcs8", bytes, MANIFEST_KEY_ALGORITHM, true, [
      "sign",
    ]);
    const { x = "" } = await crypto.subtle.exportKey("jwk", key);
    // A JWK encodes the public key as base64url.
    const publicKey = fromBase64(x.replaceAll("-", "+").replaceAll("_", "/")) ?? new Uint8Array();
    return { id: await computeKeyId(publicKey), publicKey, privateKey: key };
  } catch {
    return undefined;
  }
}

/** @returns a new private key, as PEM */
export async function generateSigningKey(): Promise<string> {
  const { privateKey } = await crypto.subtle.generateKey(MANIFEST_KEY_ALGORITHM, true, [
    "sign",
    "verify",
  ]);
  const base64 = toBase64(new Uint8Array(await crypto.subtle.exportKey("pkcs8", privateKey)));
  return [
    "-----BEGIN PRIVATE KEY-----",
    ...(base64.match(PEM_LINE_PATTERN) ?? []),
    "-----END PRIVATE KEY-----",
    "",
  ].join("\n");
}
