// Reads an infer request's body from Node's stream into a pooled buffer. A web Request would make two copies, and V8 collects
// garbage by the size of such buffers. At 49 kB per body, this took a third of the server's time.

import type { IncomingMessage } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { coreErrors } from "../../core/common-errors.ts";
import { reasonOf } from "../../core/errors.ts";
import { type BodyVerifier, readRequestBody } from "../../protocol/read-request-body.ts";
import type { BufferPool } from "./buffer-pool.ts";

export interface IncomingBody {
  /** The bytes after the JSON are aligned for any datatype, so that tensors can be views. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Returns the buffer to the pool. Call it when nothing refers to the bytes; without a call, the buffer is garbage. */
  release(): void;
}

export interface IncomingBodyOptions {
  readonly maxBytes: number;
  /** Length of the JSON at the beginning of the body. */
  readonly jsonBytes: number | undefined;
  readonly pool: BufferPool;
  /** Checks the bytes as received. */
  readonly verifyBody?: BodyVerifier | undefined;
}

/** Below this size, pooling saves nothing. */
const MIN_POOLED_BYTES = 16_384;
/** Size of the largest element, in bytes. */
const ALIGNMENT = 8;

/**
 * @param bindings of the Node server; without them, and for a compressed or chunked body, the web API reads the body
 * @throws as readRequestBody
 */
export async function readIncomingBody(
  request: Request,
  bindings: Partial<HttpBindings> | undefined,
  { maxBytes, jsonBytes = 0, pool, verifyBody }: IncomingBodyOptions,
): Promise<IncomingBody> {
  const incoming = bindings?.incoming;
  const length = Number(incoming?.headers["content-length"] ?? Number.NaN);
  if (
    incoming === undefined ||
    !("socket" in incoming) ||
    !(length <= maxBytes) ||
    (incoming.headers["content-encoding"] ?? "identity") !== "identity"
  ) {
    return { bytes: await readRequestBody(request, maxBytes, verifyBody), release: () => {} };
  }
  const offset = (ALIGNMENT - (jsonBytes % ALIGNMENT)) % ALIGNMENT;
  const isPooled = length >= MIN_POOLED_BYTES;
  const buffer = isPooled
    ? pool.acquire(2 ** Math.ceil(Math.log2(length + offset)))
    : new ArrayBuffer(length + offset);
  const bytes = new Uint8Array(buffer, offset, length);
  await readInto(bytes, incoming as IncomingMessage);
  await verifyBody?.(bytes);
  return { bytes, release: () => isPooled && pool.release(buffer) };
}

/** @throws invalid_request for a truncated body */
async function readInto(bytes: Uint8Array, incoming: IncomingMessage): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let filled = 0;
  const breakOff = (reason: unknown = "the client closed the connection") =>
    reject(coreErrors.invalidRequest([`the body cannot be read (${reasonOf(reason)})`]));
  incoming
    .on("data", (chunk: Uint8Array) => {
      bytes.set(chunk, filled); // Always fits: Node's parser enforces the content-length.
      filled += chunk.byteLength;
    })
    .once("end", resolve)
    .once("error", breakOff)
    .once("close", () => incoming.readableEnded || breakOff());
  if (incoming.destroyed && !incoming.readableEnded) breakOff(incoming.errored ?? undefined);
  await promise;
}
