// Parses the secrets with which edges sign their requests to regions. Operators write them as `<id>:<secret in base64>`,
// comma-separated if there are several.

import * as z from "zod";
import { fromBase64, toBase64 } from "../core/base64.ts";

export interface RegionKey {
  readonly id: string;
  readonly secret: Uint8Array<ArrayBuffer>;
}

/** Length of a SHA-256 digest. Shorter secrets weaken the HMAC (RFC 2104, section 3). */
const MIN_SECRET_BYTES = 32;
const ID = /^[A-Za-z0-9_.-]{1,64}$/;
const EXPECTED_FORMAT = `must be <id>:<secret>, the secret ${MIN_SECRET_BYTES} bytes or more in base64; generate one with \`edgetier region key\``;

function parseKey(text: string): RegionKey | undefined {
  const [id = "", base64 = ""] = text.trim().split(":", 2);
  const secret = fromBase64(base64);
  return ID.test(id) && secret !== undefined && secret.byteLength >= MIN_SECRET_BYTES
    ? { id, secret }
    : undefined;
}

const invalid = (context: z.RefinementCtx, message: string) => {
  context.addIssue({ code: "custom", message }); // The message never contains the value, which is secret.
  return z.NEVER;
};

/** Schema of a variable that holds one key. */
export const regionKeySchema = () =>
  z
    .string()
    .transform((text, context): RegionKey => parseKey(text) ?? invalid(context, EXPECTED_FORMAT));

/** Schema of a variable that lists all trusted keys. An invalid key or a repeated id fails the whole list. */
export const regionKeysSchema = () =>
  z.string().transform((text, context): readonly RegionKey[] => {
    const keys = text.split(",").map(parseKey);
    if (!keys.every((key) => key !== undefined))
      return invalid(context, `each ${EXPECTED_FORMAT}; separate several keys with commas`);
    return new Set(keys.map(({ id }) => id)).size === keys.length
      ? keys
      : invalid(context, "must not contain the same id twice");
  });

export const formatRegionKey = ({ id, secret }: RegionKey): string => `${id}:${toBase64(secret)}`;

export const generateRegionKey = (id: string): RegionKey => ({
  id,
  secret: crypto.getRandomValues(new Uint8Array(MIN_SECRET_BYTES)),
});
