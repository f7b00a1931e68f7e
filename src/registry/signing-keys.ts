// The Ed25519 keys of manifests, as operators write them: public ones as their 32 bytes in base64, with commas between
// several, private ones in PKCS #8, as PEM or its base64 alone.

import * as z from "zod";
import { fromBase64, toBase64 } from "../core/base64.ts";
import { sha256Hex } from "../core/hash.ts";

export const MANIFEST_KEY_ALGORITHM = "Ed25519";

const PUBLIC_KEY_BYTES = 32;
const PEM_PATTERN = /-----BEGIN PRIVATE KEY-----([^-]*)-----END PRIVATE KEY-----/;
const PEM_LINE_PATTERN = /.{1,64}/g;

/** 32 bytes. */
export type PublicKey = Uint8Array<ArrayBuffer>;

export interface SigningKey {
  /** Of its public key. */
  readonly id: string;
  readonly publicKey: PublicKey;
  readonly privateKey: CryptoKey;
}

/** A variable that names public keys: a wrong one is refused, never left out, and a list of none is wrong. */
const publicKeysVariable = z.string().transform((text, context): PublicKey[] => {
  const keys = text.split(",").map((part) => fromBase64(part));
  const isKey = (key: PublicKey | undefined): key is PublicKey =>
    key?.byteLength === PUBLIC_KEY_BYTES;
  if (keys.every(isKey)) return keys;
  context.addIssue({
    code: "custom",
    message: `must be public keys, each ${PUBLIC_KEY_BYTES} bytes in base64, with commas between them; \`edgetier model keys\` shows them`,
  });
  return z.NEVER;
});

/** Part of the configuration schema of every program that reads models. */
export const trustVariableSchemas = {
  /** Manifests must be signed with one of these; without them, any manifest is believed. */
  EDGETIER_TRUSTED_KEYS: publicKeysVariable.optional(),
};

/** The first 16 hex digits of the key's SHA-256. */
export async function computeKeyId(publicKey: PublicKey): Promise<string> {
  return (await sha256Hex(publicKey)).slice(0, 16);
}

/** As EDGETIER_TRUSTED_KEYS has them. */
export const formatPublicKeys = (keys: readonly PublicKey[]): string =>
  keys.map(toBase64).join(",");

/** @returns undefined for what is no such key */
export async function parseSigningKey(text: string): Promise<SigningKey | undefined> {
  const bytes = fromBase64(PEM_PATTERN.exec(text)?.[1] ?? text);
  if (bytes === undefined) return undefined;
  try {
    const key = await crypto.subtle.importKey("pkcs8", bytes, MANIFEST_KEY_ALGORITHM, true, [
      "sign",
    ]);
    const { x = "" } = await crypto.subtle.exportKey("jwk", key);
    const publicKey = fromBase64(x.replaceAll("-", "+").replaceAll("_", "/")) ?? new Uint8Array(); // a JWK's is base64url
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
