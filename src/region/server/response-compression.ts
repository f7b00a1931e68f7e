// Response compression in the encoding that the client prefers (RFC 9110, 12.5.3), on Node's thread pool.

import { promisify } from "node:util";
import { constants, deflate, gzip } from "node:zlib";
import type { Context } from "hono";
import { accepts } from "hono/accepts";

export type ContentEncoding = "gzip" | "deflate" | "identity";

/** Smaller bodies cost more to compress than compression saves. */
const MIN_BYTES = 1_024;
/** Tensors compress badly at any level; JSON numbers compress well even at this one. */
const COMPRESSION_OPTIONS = { level: constants.Z_BEST_SPEED };
/** HTTP's `deflate` is zlib's format. */
const compressors = { gzip: promisify(gzip), deflate: promisify(deflate) } as const;

/** Returns the client's preferred encoding, the first of equals. Encodings that the client does not list are not used. */
export function negotiateEncoding(c: Context, bytes: number): ContentEncoding {
  if (bytes < MIN_BYTES) return "identity";
  const chosen = accepts(c, {
    header: "Accept-Encoding",
    supports: ["gzip", "deflate", "identity"],
    default: "identity",
    match(accepted, { supports }) {
      const wildcard =
        supports.find((encoding) => accepted.every(({ type }) => type !== encoding)) ?? "identity";
      const known = accepted
        .map(({ type, q }) => ({ encoding: type === "*" ? wildcard : type.toLowerCase(), q }))
        .filter(({ encoding, q }) => supports.includes(encoding) && q > 0);
      return known.reduce((best, candidate) => (candidate.q > best.q ? candidate : best), {
        encoding: "identity",
        q: 0,
      }).encoding;
    },
  });
  return chosen === "gzip" || chosen === "deflate" ? chosen : "identity";
}

export async function compress(
  encoding: Exclude<ContentEncoding, "identity">,
  body: Uint8Array,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await compressors[encoding](body, COMPRESSION_OPTIONS));
}
