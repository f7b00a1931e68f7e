// Answers in the content coding that the client asks for (RFC 9110, 12.5.3), made by Node's thread pool.

import { promisify } from "node:util";
import { constants, deflate, gzip } from "node:zlib";
import type { Context } from "hono";
import { accepts } from "hono/accepts";

export type Encoding = "gzip" | "deflate" | "identity";

/** Below that, it costs more than it saves. */
const MIN_BYTES = 1_024;
/** Tensors compress badly at any level, and JSON of numbers well at this one. */
const OPTIONS = { level: constants.Z_BEST_SPEED };
/** `deflate` is zlib's format. */
const coders = { gzip: promisify(gzip), deflate: promisify(deflate) } as const;

/** The client's best liked, the first of several; what it does not mention is not taken. */
export function chooseEncoding(c: Context, bytes: number): Encoding {
  if (bytes < MIN_BYTES) return "identity";
  const chosen = accepts(c, {
    header: "Accept-Encoding",
    supports: ["gzip", "deflate", "identity"],
    default: "identity",
    match(accepted, { supports }) {
      const others =
        supports.find((encoding) => accepted.every(({ type }) => type !== encoding)) ?? "identity"; // what `*` stands for
      const known = accepted
        .map(({ type, q }) => ({ encoding: type === "*" ? others : type.toLowerCase(), q }))
        .filter(({ encoding, q }) => supports.includes(encoding) && q > 0);
      return known.reduce((best, one) => (one.q > best.q ? one : best), {
        encoding: "identity",
        q: 0,
      }).encoding;
    },
  });
  return chosen === "gzip" || chosen === "deflate" ? chosen : "identity";
}

export async function compress(
  encoding: Exclude<Encoding, "identity">,
  body: Uint8Array,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await coders[encoding](body, OPTIONS));
}
