// Bodies that come in pieces, and may have no end.
import { request } from "node:http";
import type { HttpReply } from "./http-client.ts";

export interface StreamedHttpReply extends HttpReply {
  /** How much the client could send before it was answered or cut off. */
  readonly sentBytes: number;
}

export interface ChunkedRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly chunk: Uint8Array;
  /** Chunks in the transfer coding, one for each piece. */
  readonly chunkCount: number;
  readonly timeoutMs?: number;
}

/** Stops sending as soon as there is an answer. */
export function streamBody(
  origin: string,
  { path, headers, chunk: piece, chunkCount: count, timeoutMs = 30_000 }: ChunkedRequest,
): Promise<StreamedHttpReply> {
  const startedAtMs = performance.now();
  let sent = 0;
  return new Promise((resolve) => {
    const outgoing = request(`${origin}${path}`, {
      method: "POST",
      agent: false,
      headers: { "transfer-encoding": "chunked", ...headers },
    });
    const done = (status: number, text: string, of: HttpReply["headers"] = {}) => {
      outgoing.destroy();
      resolve({
        status,
        text,
        headers: of,
        durationMs: performance.now() - startedAtMs,
        sentBytes: sent * piece.byteLength,
      });
    };
    outgoing.setTimeout(timeoutMs, () => done(0, "no answer in time"));
    outgoing.on("error", (error) => done(0, error.message));
    outgoing.on("response", async (response) => {
      outgoing.off("drain", send);
      done(
        response.statusCode ?? 0,
        Buffer.concat(await response.toArray().catch(() => [])).toString(),
        response.headers,
      );
    });
    const send = () => {
      for (let isFree = true; isFree && sent < count && !outgoing.destroyed; sent++)
        isFree = outgoing.write(piece);
      if (sent === count) outgoing.end();
      else outgoing.once("drain", send);
    };
    send();
  });
}
