// A request's body in memory, decompressed, and never more of it than the limit.

import { errors, reasonOf } from "../core/errors.ts";
import { readAtMost } from "../core/read-at-most.ts";

/** @throws body_too_large, unsupported_encoding, invalid_request for a body that breaks off or is not in its content-encoding */
export async function readBody(request: Request, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > maxBytes) throw errors.bodyTooLarge(maxBytes);

  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  // With a length within the limit the server lets no more through, so the body can be read in one piece.
  if (encoding === "identity" && declared !== null) return new Uint8Array(await attempt(request.arrayBuffer()));

  const bytes = await attempt(readAtMost(decoded(request, encoding), maxBytes));
  if (bytes === undefined) throw errors.bodyTooLarge(maxBytes);
  return bytes;
}

function decoded(request: Request, encoding: string): ReadableStream<Uint8Array> | null {
  switch (encoding) {
    case "identity":
      return request.body;
    case "gzip":
    case "deflate":
      return request.body?.pipeThrough(new DecompressionStream(encoding)) ?? null;
    default:
      throw errors.unsupportedEncoding(encoding);
  }
}

async function attempt<Result>(reading: Promise<Result>): Promise<Result> {
  try {
    return await reading;
  } catch (error) {
    throw errors.invalidRequest([`the body cannot be read (${reasonOf(error)})`]);
  }
}
