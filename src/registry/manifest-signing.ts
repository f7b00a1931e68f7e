// Signed manifests: DSSE envelopes (https://github.com/secure-systems-lab/dsse, protocol v1.0.2) with Ed25519 by Web Crypto.
//
// The envelope is the manifest's file, so that a reader makes no second request. It has one form, down to the byte, which a
// pattern can read: a JSON parser and a schema would take longer than all the rest. The signatures cover the manifest's bytes
// as they lie in it: there is nothing to bring into a canonical form, and nothing of them is parsed before it is verified.

import { fromBase64, toBase64 } from "../core/base64.ts";
import { concatBytes } from "../core/bytes.ts";
import {
  MANIFEST_KEY_ALGORITHM,
  computeKeyId,
  type PublicKey,
  type SigningKey,
} from "./signing-keys.ts";

/** Part of what is signed: a signature of anything else is none of a manifest. */
const PAYLOAD_TYPE = "application/vnd.edgetier.manifest+json";

/** As encoders write it: no other text has the same bytes. */
const BASE64_PATTERN =
  "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?";
const SIGNATURE_PATTERN = '\\{"keyid":"([0-9a-f]{16})","sig":"([A-Za-z0-9+/]{85}[AQgw]==)"\\}';
const MAX_SIGNATURES = 8;
const ALL_SIGNATURES_PATTERN = new RegExp(SIGNATURE_PATTERN, "g");
const ENVELOPE_PATTERN = new RegExp(
  `^\\{"payloadType":"${PAYLOAD_TYPE.replace(/[.+]/g, "\\$&")}","payload":"(${BASE64_PATTERN})","signatures":\\[(${SIGNATURE_PATTERN}(?:,${SIGNATURE_PATTERN}){0,${MAX_SIGNATURES - 1}})\\]\\}\\n$`,
);

export interface ManifestPayload {
  /** The manifest's own bytes. */
  readonly manifest: Uint8Array<ArrayBuffer>;
  /** Ids of the keys that its signatures say they are of; none where it is not signed. */
  readonly signedBy: readonly string[];
}

interface Envelope {
  /** In base64, as `sig`. */
  readonly payload: string;
  readonly signatures: readonly { readonly keyid: string; readonly sig: string }[];
}

const encoder = new TextEncoder();

/** @returns the file that holds the manifest and a signature by each key */
export async function signManifest(
  manifest: Uint8Array<ArrayBuffer>,
  keys: readonly SigningKey[],
): Promise<Uint8Array<ArrayBuffer>> {
  const signed = preAuthenticationEncoding(manifest);
  const signatures = keys.map(async ({ id, privateKey: key }) => ({
    keyid: id,
    sig: toBase64(new Uint8Array(await crypto.subtle.sign(MANIFEST_KEY_ALGORITHM, key, signed))),
  }));
  return encoder.encode(
    formatEnvelope({ payload: toBase64(manifest), signatures: await Promise.all(signatures) }),
  );
}

/**
 * @param trusted keys; undefined believes any manifest, signed or not
 * @returns the manifest, or why it is not believed: of the signatures, one at least must be by a trusted key, and all that are must be right
 */
export async function openEnvelope(
  file: Uint8Array<ArrayBuffer>,
  trusted: readonly PublicKey[] | undefined,
): Promise<ManifestPayload | { readonly problem: string }> {
  const envelope = parseEnvelope(file);
  if (envelope === undefined)
    return trusted === undefined
      ? { manifest: file, signedBy: [] }
      : { problem: "it is not signed" };
  const { payload, signatures } = envelope;
  const manifest = decodeBase64(payload);
  const opened = { manifest, signedBy: signatures.map(({ keyid }) => keyid) };
  if (trusted === undefined) return opened;

  const keys = await Promise.all(
    trusted.map(async (publicKey) => ({ id: await computeKeyId(publicKey), publicKey })),
  );
  const known = signatures.flatMap((signature) =>
    keys.filter(({ id }) => id === signature.keyid).map((key) => ({ ...signature, ...key })),
  );
  if (known.length === 0)
    return {
      problem: `it is signed by ${opened.signedBy.join(", ")}; trusted are ${keys.map(({ id }) => id).join(", ")}`,
    };
  const signed = preAuthenticationEncoding(manifest);
  for (const { id, publicKey, sig } of known) {
    const key = await crypto.subtle.importKey("raw", publicKey, MANIFEST_KEY_ALGORITHM, false, [
      "verify",
    ]);
    if (!(await crypto.subtle.verify(MANIFEST_KEY_ALGORITHM, key, decodeBase64(sig), signed)))
      return { problem: `the signature by ${id} is of something else` };
  }
  return opened;
}

const formatEnvelope = ({ payload, signatures }: Envelope): string =>
  `${JSON.stringify({ payloadType: PAYLOAD_TYPE, payload, signatures })}\n`;

/** @returns undefined for a file that is no envelope */
function parseEnvelope(file: Uint8Array): Envelope | undefined {
  const [, payload, signatures] =
    ENVELOPE_PATTERN.exec(new TextDecoder("utf-8", { ignoreBOM: true }).decode(file)) ?? [];
  if (payload === undefined || signatures === undefined) return undefined;
  return {
    payload,
    signatures: [...signatures.matchAll(ALL_SIGNATURES_PATTERN)].map(
      ([, keyid = "", sig = ""]) => ({
        keyid,
        sig,
      }),
    ),
  };
}

const decodeBase64 = (base64: string): Uint8Array<ArrayBuffer> =>
  fromBase64(base64) ?? new Uint8Array();

/** DSSE's PAE: type and body with their lengths, so that one cannot be taken for a part of the other. */
function preAuthenticationEncoding(body: Uint8Array): Uint8Array<ArrayBuffer> {
  return concatBytes([
    encoder.encode(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${body.byteLength} `),
    body,
  ]);
}
