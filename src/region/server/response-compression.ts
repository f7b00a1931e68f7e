// Answers in the content coding that the client asks for (RFC 9110, 12.5.3), made by Node's thread pool.

import { promisify } from "node:util";
import { constants, deflate, gzip } from "node:zlib";
import type { Context } from "hono";
import { accepts } from "hono/accepts";

export type ContentEncoding = "gzip" | "deflate" | "identity";

/** Below that, it costs more than it saves. */
const MIN_BYTES = 1_024;
/** Tensors compress badly at any level, and JSON of numbers well at this one. */
const COMPRESSION_OPTIONS = { level: constants.Z_BEST_SPEED };
/** `deflate` is zlib's format. */
const compressors = { gzip: promisify(gzip), deflate: promisify(deflate) } as const;

/** The client's best liked, the first of several; what it does not mention is not taken. */
export function negotiateEncoding(c: Context, bytes: number): ContentEncoding {
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
  encoding: Exclude<ContentEncoding, "identity">,
  body: Uint8Array,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await compressors[encoding](body, COMPRESSION_OPTIONS));
}
