// Test credentials: a token issuer with its own keys, and API keys with their entries. No imports from Node: suites in
// workerd use it too.
import { sign } from "hono/utils/jwt/jwt";
import { type ApiKeyEntry, generateApiKey, hashApiKey } from "../../src/http/access/api-key.ts";
import type { JwtAlgorithm } from "../../src/http/access/jwks-schema.ts";

export const ISSUER = "https://issuer.test/";
export const AUDIENCE = "https://edge.test";

export interface TestIssuer {
  readonly jwks: { readonly keys: readonly object[] };
  /** Signs exactly these claims; a valid token has those of `createValidClaims`. */
  sign(claims: object, header?: Readonly<Record<string, unknown>>): Promise<string>;
}

const KEY_GENERATION_ALGORITHMS = {
  RS256: {
    name: "RSASSA-PKCS1-v1_5",
    modulusLength: 2048,
    publicExponent: Uint8Array.of(1, 0, 1),
    hash: "SHA-256",
  },
  ES256: { name: "ECDSA", namedCurve: "P-256" },
  EdDSA: { name: "Ed25519" },
} as const;
const SIGNATURE_ALGORITHMS = {
  RS256: { name: "RSASSA-PKCS1-v1_5" },
  ES256: { name: "ECDSA", hash: "SHA-256" },
  EdDSA: { name: "Ed25519" },
} as const;

export async function createTestIssuer(algorithm: JwtAlgorithm, kid = "one"): Promise<TestIssuer> {
  const pair = (await crypto.subtle.generateKey(KEY_GENERATION_ALGORITHMS[algorithm], true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const jwk = (await crypto.subtle.exportKey("jwk", pair.publicKey)) as object;
  return {
    jwks: { keys: [{ ...jwk, kid, alg: algorithm, use: "sig" }] },
    async sign(claims, header = {}) {
      const signed = [{ alg: algorithm, typ: "JWT", kid, ...header }, claims]
        .map((part) => base64Url(JSON.stringify(part)))
        .join(".");
      const signature = await crypto.subtle.sign(
        SIGNATURE_ALGORITHMS[algorithm],
        pair.privateKey,
        new TextEncoder().encode(signed),
      );
      return `${signed}.${base64Url(String.fromCharCode(...new Uint8Array(signature)))}`;
    },
  };
}

export const base64Url = (binary: string): string =>
  btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** Creates the claims of a token that expires in one minute. */
export const createValidClaims = (nowMs: number, more: object = {}) => ({
  iss: ISSUER,
  aud: AUDIENCE,
  sub: "somebody",
  tenant: "acme",
  scope: "openid predict metadata",
  exp: nowMs / 1000 + 60,
  ...more,
});

/** Signs with a shared secret, like an attacker who uses the public key as the secret. */
export const signWithSecret = (claims: object, secret: string, kid = "one"): Promise<string> =>
  sign({ ...claims }, { kty: "oct", k: base64Url(secret), alg: "HS256", kid }, "HS256");

export interface TestApiKey {
  readonly key: string;
  readonly entry: ApiKeyEntry;
}

export async function createTestApiKey(changes: Partial<ApiKeyEntry> = {}): Promise<TestApiKey> {
  const key = generateApiKey();
  return {
    key,
    entry: {
      id: "first",
      sha256: await hashApiKey(key),
      tenant: "acme",
      scopes: ["predict", "metadata"],
      ...changes,
    },
  };
}
