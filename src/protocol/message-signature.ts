// HTTP Message Signatures (RFC 9421) with hmac-sha256, and Content-Digest (RFC 9530) with sha-256, through Web Crypto.
//
// Known gaps: one signature per message; components without parameters (`;sf`, `;bs`, `;req`); strings without escapes.
// The parser accepts only the canonical form.

import { fromBase64, toBase64 } from "../core/base64.ts";

/** Parts of a message that a signature can cover. */
export interface SignedMessage {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
}

export interface SignatureParameters {
  /** Seconds since the epoch. */
  readonly created: number;
  readonly keyId: string;
  readonly nonce: string;
}

export interface MessageSignature {
  /** Lower-case names. Components with "@" are derived from the message; the others are headers. */
  readonly components: readonly string[];
  readonly parameters: ReadonlyMap<string, string | number>;
  readonly signature: Uint8Array<ArrayBuffer>;
  /** Text of the signature parameters, identical in the header and in the signature base. */
  readonly signatureParams: string;
}

export const HMAC_ALGORITHM = "hmac-sha256";
const SIGNATURE_BYTES = 32;
/** Limit of each signature header, much longer than any header of `signMessage`. */
const MAX_HEADER_CHARACTERS = 2_048;

const COMPONENT_PATTERN = '"@?[a-z0-9-]+"';
const PARAMETER_PATTERN = ';([a-z][a-z0-9-]*)=(?:([0-9]{1,15})|"([ !#-\\[\\]-~]*)")';
const SIGNATURE_INPUT_PATTERN = new RegExp(
  `^([a-z][a-z0-9-]*)=(\\(((?:${COMPONENT_PATTERN}(?: ${COMPONENT_PATTERN})*)?)\\)((?:${PARAMETER_PATTERN})*))$`,
);
const SIGNATURE_PATTERN = /^([a-z][a-z0-9-]*)=:([A-Za-z0-9+/]+={0,2}):$/;
const RAW_PATH_PATTERN = /^[a-z]+:\/\/[^/?#]*([^?#]*)/i;
const encoder = new TextEncoder();

export async function importHmacKey(secret: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  return await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, [
    "sign",
    "verify",
  ]);
}

/** Computes `content-digest` of a body in its transfer form, that is after any content coding. */
export async function computeContentDigest(body: Uint8Array<ArrayBuffer>): Promise<string> {
  return `sha-256=:${toBase64(new Uint8Array(await crypto.subtle.digest("SHA-256", body)))}:`;
}

/**
 * @param label distinguishes the signatures of a message
 * @returns the headers `signature-input` and `signature`
 * @throws RangeError if the message lacks a component
 */
export async function signMessage(
  message: SignedMessage,
  components: readonly string[],
  { created, keyId, nonce }: SignatureParameters,
  key: CryptoKey,
  label: string,
): Promise<Record<"signature-input" | "signature", string>> {
  const signatureParams = `(${components.map((name) => `"${name}"`).join(" ")});created=${created};keyid="${keyId}";alg="${HMAC_ALGORITHM}";nonce="${nonce}"`;
  const base = createSignatureBase(message, components, signatureParams);
  if (base === undefined)
    throw new RangeError(`the message lacks a component of ${signatureParams}`);
  const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", key, base));
  return {
    "signature-input": `${label}=${signatureParams}`,
    signature: `${label}=:${toBase64(bytes)}:`,
  };
}

/** @returns undefined for a message with several signatures, or without one in canonical form */
export function parseSignature(headers: Headers): MessageSignature | undefined {
  const [input = "", value = ""] = ["signature-input", "signature"].map(
    (name) => headers.get(name) ?? "",
  );
  if (input.length > MAX_HEADER_CHARACTERS || value.length > MAX_HEADER_CHARACTERS)
    return undefined;
  const [, label, signatureParams = "", list = "", parameterText = ""] =
    SIGNATURE_INPUT_PATTERN.exec(input) ?? [];
  const [, valueLabel, base64 = ""] = SIGNATURE_PATTERN.exec(value) ?? [];
  const signature = fromBase64(base64);
  if (
    label === undefined ||
    label !== valueLabel ||
    signature?.byteLength !== SIGNATURE_BYTES ||
    toBase64(signature) !== base64
  )
    return undefined;
  const components = list === "" ? [] : list.slice(1, -1).split('" "');
  const pairs = [...parameterText.matchAll(new RegExp(PARAMETER_PATTERN, "g"))].map(
    ([, name = "", digits, string = ""]) =>
      [name, digits === undefined ? string : Number(digits)] as const,
  );
  const parameters = new Map(pairs);
  const isUnambiguous =
    new Set(components).size === components.length && parameters.size === pairs.length;
  return isUnambiguous ? { components, parameters, signature, signatureParams } : undefined;
}

/** Returns whether the signature matches the message. The comparison takes constant time. */
export async function verifyMessage(
  message: SignedMessage,
  { components, signatureParams, signature }: MessageSignature,
  key: CryptoKey,
): Promise<boolean> {
  const base = createSignatureBase(message, components, signatureParams);
  return base !== undefined && (await crypto.subtle.verify("HMAC", key, signature, base));
}

/** Creates the signature base of RFC 9421, 2.5. @returns undefined if the message lacks a component */
function createSignatureBase(
  message: SignedMessage,
  components: readonly string[],
  signatureParams: string,
): Uint8Array<ArrayBuffer> | undefined {
  const values = components.map((name) => [name, resolveComponent(message, name)] as const);
  if (values.some(([, value]) => value === undefined)) return undefined;
  return encoder.encode(
    [
      ...values.map(([name, value]) => `"${name}": ${value}`),
      `"@signature-params": ${signatureParams}`,
    ].join("\n"),
  );
}

/** Resolves a component to its value, by RFC 9421, 2.1 and 2.2. */
function resolveComponent(
  { method, url, headers }: SignedMessage,
  name: string,
): string | undefined {
  if (!name.startsWith("@")) return headers.get(name) ?? undefined;
  const { pathname, search, host } = new URL(url);
  switch (name) {
    case "@method":
      return method;
    case "@path":
      // A server may route by the unnormalized path, so a path that only normalizes to a signed one must not match.
      return RAW_PATH_PATTERN.exec(url)?.[1] === pathname ? pathname : undefined;
    case "@query":
      return search === "" ? "?" : search;
    case "@authority":
      return host;
    default:
      return undefined;
  }
}
