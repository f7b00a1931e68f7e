// The secrets that edges sign their requests to regions with, as operators write them: `<id>:<secret in base64>`, with commas
// between several.

import * as z from "zod";
import { fromBase64, toBase64 } from "../core/base64.ts";

export interface RegionKey {
  readonly id: string;
  readonly secret: Uint8Array<ArrayBuffer>;
}

/** As long as what SHA-256 gives: shorter ones could be guessed sooner (RFC 2104, 3). */
const MIN_SECRET_BYTES = 32;
const ID = /^[A-Za-z0-9_.-]{1,64}$/;
const EXPECTED_FORMAT = `must be <id>:<secret>, the secret ${MIN_SECRET_BYTES} bytes or more in base64; \`edgetier region key\` makes one`;

function parseKey(text: string): RegionKey | undefined {
  const [id = "", base64 = ""] = text.trim().split(":", 2);
  const secret = fromBase64(base64);
  return ID.test(id) && secret !== undefined && secret.byteLength >= MIN_SECRET_BYTES
    ? { id, secret }
    : undefined;
}

const invalid = (context: z.RefinementCtx, message: string) => {
  context.addIssue({ code: "custom", message }); // never with the value
  return z.NEVER;
};

/** For a variable of one key. */
export const regionKeySchema = () =>
  z
    .string()
    .transform((text, context): RegionKey => parseKey(text) ?? invalid(context, EXPECTED_FORMAT));

/** For a variable of all that are believed: a wrong one is refused, never left out, and so is an id that is there twice. */
export const regionKeysSchema = () =>
  z.string().transform((text, context): readonly RegionKey[] => {
    const keys = text.split(",").map(parseKey);
    if (!keys.every((key) => key !== undefined))
      return invalid(context, `each ${EXPECTED_FORMAT}; several have commas between them`);
    return new Set(keys.map(({ id }) => id)).size === keys.length
      ? keys
      : invalid(context, "must not have the same id twice");
  });

export const formatRegionKey = ({ id, secret }: RegionKey): string => `${id}:${toBase64(secret)}`;

export const generateRegionKey = (id: string): RegionKey => ({
  id,
  secret: crypto.getRandomValues(new Uint8Array(MIN_SECRET_BYTES)),
});
