// An infer request's body, from Node's own stream into a buffer that is used again. The web's Request would make two copies
// of it, and V8 collects garbage by the bytes of such buffers: at 49 kB a body, that was a third of the server's time.

import { coreErrors } from "../../core/common-errors.ts";
import type { IncomingMessage } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { reasonOf } from "../../core/errors.ts";
import { type BodyVerifier, readRequestBody } from "../../protocol/read-request-body.ts";
import type { BufferPool } from "./buffer-pool.ts";

export interface IncomingBody {
  /** What follows the JSON is aligned for any datatype, so that tensors can be views of it. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** To be called when nothing refers to the bytes any more; if it is not, they are garbage in the end. */
  release(): void;
}

export interface IncomingBodyOptions {
  readonly maxBytes: number;
  /** Of the JSON at its beginning. */
  readonly jsonBytes: number | undefined;
  readonly pool: BufferPool;
  /** Of the bytes as they came. */
  readonly verifyBody?: BodyVerifier | undefined;
}

/** Below that, keeping a buffer saves nothing. */
const MIN_POOLED_BYTES = 16_384;
/** Of the largest element. */
const ALIGNMENT = 8;

/**
 * @param bindings of the Node server; without them, and for a body that is compressed or sent in chunks, it is read as the web does
 * @throws as readRequestBody
 */
export async function readIncomingBody(
  request: Request,
  bindings: Partial<HttpBindings> | undefined,
  { maxBytes, jsonBytes = 0, pool, verifyBody: check }: IncomingBodyOptions,
): Promise<IncomingBody> {
  const incoming = bindings?.incoming;
  const length = Number(incoming?.headers["content-length"] ?? Number.NaN);
  if (
    incoming === undefined ||
    !("socket" in incoming) ||
    !(length <= maxBytes) ||
    (incoming.headers["content-encoding"] ?? "identity") !== "identity"
  ) {
    return { bytes: await readRequestBody(request, maxBytes, check), release: () => {} };
  }
  const offset = (ALIGNMENT - (jsonBytes % ALIGNMENT)) % ALIGNMENT;
  const isPooled = length >= MIN_POOLED_BYTES;
  const buffer = isPooled
    ? pool.acquire(2 ** Math.ceil(Math.log2(length + offset)))
    : new ArrayBuffer(length + offset);
  const bytes = new Uint8Array(buffer, offset, length);
  await readInto(bytes, incoming as IncomingMessage);
  await check?.(bytes);
  return { bytes, release: () => isPooled && pool.release(buffer) };
}

/** @throws invalid_request for a body that breaks off */
async function readInto(bytes: Uint8Array, incoming: IncomingMessage): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let filled = 0;
  const breakOff = (reason: unknown = "the client closed the connection") =>
    reject(coreErrors.invalidRequest([`the body cannot be read (${reasonOf(reason)})`]));
  incoming
    .on("data", (chunk: Uint8Array) => {
      bytes.set(chunk, filled); // no more than its content-length: Node's parser sees to it
      filled += chunk.byteLength;
    })
    .once("end", resolve)
    .once("error", breakOff)
    .once("close", () => incoming.readableEnded || breakOff());
  if (incoming.destroyed && !incoming.readableEnded) breakOff(incoming.errored ?? undefined);
  await promise;
}
