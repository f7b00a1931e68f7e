// Reads and decompresses a request's body, up to a limit.

import { coreErrors } from "../core/common-errors.ts";
import { reasonOf } from "../core/errors.ts";
import { readLimited } from "../core/read-limited.ts";
import { protocolErrors } from "./errors.ts";

/** @throws if the received bytes differ from the bytes that the client signed */
export type BodyVerifier = (received: Uint8Array<ArrayBuffer>) => Promise<void>;

/**
 * @param verify receives the whole body before decompression
 * @throws body_too_large; unsupported_encoding; invalid_request for a truncated body or one that does not match its
 * content-encoding; the errors of `verify`
 */
export async function readRequestBody(
  request: Request,
  maxBytes: number,
  verify?: BodyVerifier,
): Promise<Uint8Array<ArrayBuffer>> {
  const { headers } = request;
  // With a transfer-encoding, content-length has no meaning, because the body ends with its last chunk.
  const declared = headers.has("transfer-encoding") ? null : headers.get("content-length");
  if (declared !== null && Number(declared) > maxBytes) throw protocolErrors.bodyTooLarge(maxBytes);

  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || verify !== undefined) {
    // The server enforces a declared length, so a body within the limit can be read in one piece.
    const received =
      declared === null
        ? await readLimitedBody(request.body, maxBytes)
        : new Uint8Array(await rejectUnreadable(request.arrayBuffer()));
    await verify?.(received);
    return encoding === "identity"
      ? received
      : await readLimitedBody(decompress(new Response(received).body, encoding), maxBytes);
  }
  return await readLimitedBody(decompress(request.body, encoding), maxBytes);
}

async function readLimitedBody(
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await rejectUnreadable(readLimited(body, maxBytes));
  if (bytes === undefined) throw protocolErrors.bodyTooLarge(maxBytes);
  return bytes;
}

function decompress(body: Response["body"], encoding: string): ReadableStream<Uint8Array> | null {
  if (encoding !== "gzip" && encoding !== "deflate")
    throw protocolErrors.unsupportedEncoding(encoding);
  return body?.pipeThrough(new DecompressionStream(encoding)) ?? null;
}

async function rejectUnreadable<Result>(reading: Promise<Result>): Promise<Result> {
  try {
    return await reading;
  } catch (error) {
    throw coreErrors.invalidRequest([`the body cannot be read (${reasonOf(error)})`]);
  }
}
