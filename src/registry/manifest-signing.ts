// Signs and verifies manifests: DSSE envelopes (https://github.com/secure-systems-lab/dsse, protocol v1.0.2) with
// Ed25519 through Web Crypto.
//
// The envelope is the manifest's file, so a reader needs no second request. It has exactly one byte form, which a regular
// expression parses. A JSON parser and a schema would take longer than all other steps. The signatures cover the
// manifest's bytes in the envelope, so there is no canonicalization, and no byte is parsed before it is verified.

import { fromBase64, toBase64 } from "../core/base64.ts";
import { concatBytes } from "../core/bytes.ts";
import {
  MANIFEST_KEY_ALGORITHM,
  computeKeyId,
  type PublicKey,
  type SigningKey,
} from "./signing-keys.ts";

/** Payload type, which is also signed, so that a signature of another kind of document is invalid for a manifest. */
const PAYLOAD_TYPE = "application/vnd.edgetier.manifest+json";

/** Canonical base64: exactly one text for given bytes. */
const BASE64_PATTERN =
  "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?";
const SIGNATURE_PATTERN = '\\{"keyid":"([0-9a-f]{16})","sig":"([A-Za-z0-9+/]{85}[AQgw]==)"\\}';
const MAX_SIGNATURES = 8;
const ALL_SIGNATURES_PATTERN = new RegExp(SIGNATURE_PATTERN, "g");
const ENVELOPE_PATTERN = new RegExp(
  `^\\{"payloadType":"${PAYLOAD_TYPE.replace(/[.+]/g, "\\$&")}","payload":"(${BASE64_PATTERN})","signatures":\\[(${SIGNATURE_PATTERN}(?:,${SIGNATURE_PATTERN}){0,${MAX_SIGNATURES - 1}})\\]\\}\\n$`,
);

export interface ManifestPayload {
  /** Bytes of the manifest without the envelope. */
  readonly manifest: Uint8Array<ArrayBuffer>;
  /** Key ids that the signatures claim; empty for an unsigned manifest. */
  readonly signedBy: readonly string[];
}

interface Envelope {
  /** Manifest bytes in base64, like `sig`. */
  readonly payload: string;
  readonly signatures: readonly { readonly keyid: string; readonly sig: string }[];
}

const encoder = new TextEncoder();

/** @returns the envelope file with the manifest and one signature per key */
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
 * Opens a manifest file. At least one signature must be by a trusted key, and every signature by a trusted key must be
 * valid.
 * @param trusted trusted keys; undefined accepts any manifest, signed or not
 * @returns the manifest, or the reason to reject it
 */
export async function openEnvelope(
  file: Uint8Array<ArrayBuffer>,
  trusted: readonly PublicKey[] | undefined,
): Promise<ManifestPayload | { readonly problem: string }> {
  const envelope = parseEnvelope(file);
  if (envelope === undefined)
    return trusted === undefined
      ? { manifest: file, signedBy: [] }
      : { problem: "it has no signature" };
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
      problem: `it is signed by ${opened.signedBy.join(", ")}; the trusted keys are ${keys.map(({ id }) => id).join(", ")}`,
    };
  const signed = preAuthenticationEncoding(manifest);
  for (const { id, publicKey, sig } of known) {
    const key = await crypto.subtle.importKey("raw", publicKey, MANIFEST_KEY_ALGORITHM, false, [
      "verify",
    ]);
    if (!(await crypto.subtle.verify(MANIFEST_KEY_ALGORITHM, key, decodeBase64(sig), signed)))
      return { problem: `the signature by ${id} does not match its content` };
  }
  return opened;
}

const formatEnvelope = ({ payload, signatures }: Envelope): string =>
  `${JSON.stringify({ payloadType: PAYLOAD_TYPE, payload, signatures })}\n`;

/** @returns undefined for a file without an envelope */
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

/** Encodes type and body with their lengths (DSSE's PAE), so that neither can pass for a part of the other. */
function preAuthenticationEncoding(body: Uint8Array): Uint8Array<ArrayBuffer> {
  return concatBytes([
    encoder.encode(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${body.byteLength} `),
    body,
  ]);
}
