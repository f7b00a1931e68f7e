// A request's body in memory, decompressed, and never more of it than the limit.

import { protocolErrors } from "./errors.ts";
import { coreErrors } from "../core/common-errors.ts";
import { reasonOf } from "../core/errors.ts";
import { readLimited } from "../core/read-limited.ts";

/** @throws where the bytes, as they came, are not those that were sent */
export type BodyVerifier = (received: Uint8Array<ArrayBuffer>) => Promise<void>;

/**
 * @param check is called with the whole body before any of it is decompressed
 * @throws body_too_large, unsupported_encoding, invalid_request for a body that breaks off or is not in its content-encoding; what `check` throws
 */
export async function readRequestBody(
  request: Request,
  maxBytes: number,
  check?: BodyVerifier,
): Promise<Uint8Array<ArrayBuffer>> {
  const { headers } = request;
  // A length beside a transfer-encoding says nothing: the body ends where its last chunk does.
  const declared = headers.has("transfer-encoding") ? null : headers.get("content-length");
  if (declared !== null && Number(declared) > maxBytes) throw protocolErrors.bodyTooLarge(maxBytes);

  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || check !== undefined) {
    // With a length within the limit the server lets no more through, so the body can be read in one piece.
    const received =
      declared === null
        ? await readLimitedBody(request.body, maxBytes)
        : new Uint8Array(await rejectUnreadable(request.arrayBuffer()));
    await check?.(received);
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
