// HTTP Message Signatures (RFC 9421) by hmac-sha256, and Content-Digest (RFC 9530) by sha-256, through Web Crypto.
//
// Known gaps: one signature a message; components without parameters (`;sf`, `;bs`, `;req`); strings without escapes. What is
// not written in this form, which is the canonical one, is no signature here.

import { fromBase64, toBase64 } from "../core/base64.ts";

/** What a signature can cover. */
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
  /** In lower case; those with "@" are derived from the message, the others are headers. */
  readonly components: readonly string[];
  readonly parameters: ReadonlyMap<string, string | number>;
  readonly signature: Uint8Array<ArrayBuffer>;
  /** The signature's parameters as they are in the header, and in what is signed. */
  readonly signatureParams: string;
}

export const HMAC_ALGORITHM = "hmac-sha256";
const SIGNATURE_BYTES = 32;
/** Of either header. Much longer than any signature that is made here. */
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

/** The value of `content-digest` for a body as it travels, that is after any content coding. */
export async function computeContentDigest(body: Uint8Array<ArrayBuffer>): Promise<string> {
  return `sha-256=:${toBase64(new Uint8Array(await crypto.subtle.digest("SHA-256", body)))}:`;
}

/**
 * @param label of the signature among a message's
 * @returns the headers `signature-input` and `signature`
 * @throws RangeError for a component that the message does not have
 */
export async function signMessage(
  message: SignedMessage,
  components: readonly string[],
  { created, keyId, nonce }: SignatureParameters,
  key: CryptoKey,
  label: string,
): Promise<Record<"signature-input" | "signature", string>> {
  const text = `(${components.map((name) => `"${name}"`).join(" ")});created=${created};keyid="${keyId}";alg="${HMAC_ALGORITHM}";nonce="${nonce}"`;
  const base = createSignatureBase(message, components, text);
  if (base === undefined) throw new RangeError(`the message has not all of ${text}`);
  const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", key, base));
  return { "signature-input": `${label}=${text}`, signature: `${label}=:${toBase64(bytes)}:` };
}

/** @returns undefined for a message that has no signature in this form, or several */
export function parseSignature(headers: Headers): MessageSignature | undefined {
  const [input = "", value = ""] = ["signature-input", "signature"].map(
    (name) => headers.get(name) ?? "",
  );
  if (input.length > MAX_HEADER_CHARACTERS || value.length > MAX_HEADER_CHARACTERS)
    return undefined;
  const [, label, text = "", list = "", parameterText = ""] =
    SIGNATURE_INPUT_PATTERN.exec(input) ?? [];
  const [, valueLabel, base64 = ""] = SIGNATURE_PATTERN.exec(value) ?? [];
  const bytes = fromBase64(base64);
  if (
    label === undefined ||
    label !== valueLabel ||
    bytes?.byteLength !== SIGNATURE_BYTES ||
    toBase64(bytes) !== base64
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
  return isUnambiguous
    ? { components, parameters, signature: bytes, signatureParams: text }
    : undefined;
}

/** Whether the message is as it was signed. In constant time. */
export async function verifyMessage(
  message: SignedMessage,
  { components, signatureParams: text, signature: bytes }: MessageSignature,
  key: CryptoKey,
): Promise<boolean> {
  const base = createSignatureBase(message, components, text);
  return base !== undefined && (await crypto.subtle.verify("HMAC", key, bytes, base));
}

/** RFC 9421, 2.5. @returns undefined where the message lacks one of the components */
function createSignatureBase(
  message: SignedMessage,
  components: readonly string[],
  text: string,
): Uint8Array<ArrayBuffer> | undefined {
  const values = components.map((name) => [name, resolveComponent(message, name)] as const);
  if (values.some(([, value]) => value === undefined)) return undefined;
  return encoder.encode(
    [...values.map(([name, value]) => `"${name}": ${value}`), `"@signature-params": ${text}`].join(
      "\n",
    ),
  );
}

/** RFC 9421, 2.1 and 2.2. */
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
      // A server may route by the path as it is written: what only means a signed one is not one.
      return RAW_PATH_PATTERN.exec(url)?.[1] === pathname ? pathname : undefined;
    case "@query":
      return search === "" ? "?" : search;
    case "@authority":
      return host;
    default:
      return undefined;
  }
}
