// HTTP client for valid and invalid requests: keeps connections open, and sends headers that fetch rejects.
import { Agent, type OutgoingHttpHeaders, request } from "node:http";
import { buffer } from "node:stream/consumers";
import * as z from "zod";

export interface HttpRequest {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
  /** Says that nothing more comes although less, or more, came than the headers promise. */
  readonly isHalfClosed?: boolean;
  readonly timeoutMs?: number;
}

export interface HttpReply {
  /** 0 where the connection ended without an answer, or nothing came in time. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The body, or why there is none. */
  readonly text: string;
  readonly durationMs: number;
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

export async function sendRequest(origin: string, question: HttpRequest): Promise<HttpReply> {
  const reply = await sendOnce(origin, question);
  // The server closed a connection that was kept open, just when it was used again.
  return reply.status === 0 && reply.text === STALE_CONNECTION
    ? await sendOnce(origin, question)
    : reply;
}

const STALE_CONNECTION = "a kept connection was closed";
/** A larger body waits a moment for a rejection by its length, because the server closes that connection. */
const LARGE_BYTES = 65_536;
const REJECTION_WAIT_MS = 100;

function sendOnce(
  origin: string,
  { method, path, headers, body, isHalfClosed: endsHere = false, timeoutMs = 30_000 }: HttpRequest,
): Promise<HttpReply> {
  const { hostname, port } = new URL(origin);
  const startedAtMs = performance.now();
  const all: OutgoingHttpHeaders = {
    ...(body === undefined
      ? {}
      : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
    ...headers,
  };
  return new Promise((resolve) => {
    const done = (status: number, text: string, of: HttpReply["headers"] = {}) =>
      resolve({ status, text, headers: of, durationMs: performance.now() - startedAtMs });
    const outgoing = request(
      {
        agent: endsHere ? false : agent,
        hostname,
        port,
        path,
        method: method ?? (body === undefined ? "GET" : "POST"),
        headers: all,
      },
      async (response) => {
        clearTimeout(sending);
        const bytes = await buffer(response).catch(() => undefined);
        if (!outgoing.writableEnded) outgoing.destroy();
        if (bytes === undefined) done(0, "the answer broke off");
        else done(response.statusCode ?? 0, bytes.toString(), response.headers);
      },
    );
    outgoing.setTimeout(timeoutMs, () =>
      outgoing.destroy(new Error(`no answer within ${timeoutMs} ms`)),
    );
    outgoing.on("error", (error) =>
      done(
        0,
        outgoing.reusedSocket && "code" in error && error.code === "ECONNRESET"
          ? STALE_CONNECTION
          : error.message,
      ),
    );
    if (endsHere) outgoing.on("finish", () => outgoing.socket?.end());
    const isLarge = body !== undefined && Buffer.byteLength(body) > LARGE_BYTES;
    if (isLarge) outgoing.flushHeaders();
    else outgoing.end(body);
    const sending = isLarge ? setTimeout(() => outgoing.end(body), REJECTION_WAIT_MS) : undefined;
  });
}

/** Works off `count` calls, several at a time. */
export async function runConcurrently(
  count: number,
  width: number,
  call: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await call(next++);
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, worker));
}

export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const errorBody = z.union([
  z.object({ error: z.string().min(1) }),
  z.object({ code: z.string().min(1), detail: z.string().min(1), remedy: z.string().min(1) }),
]);

/** Whether a rejection has a reason, in one of the two forms. */
export const hasErrorBody = ({ text }: HttpReply): boolean =>
  errorBody.safeParse(tryParseJson(text)).success;

export const formatReply = ({ status, text, durationMs: ms }: HttpReply): string =>
  `${status} after ${Math.round(ms)} ms: ${text.slice(0, 200)}`;

/** Texts of late answers, and their codes where the protocol has codes: time-outs and deadlines. */
const LATE_ANSWER =
  /timeout expired|No tier responded within|has a p95 latency of|"(?:request_expired|deadline_exceeded|deadline_too_near)"/;

/** Statuses from 500 that are no failures: deadlines and time-outs may have passed, and 501 is for features of another place. */
export const isLateOrUnsupported = ({ status, text }: HttpReply): boolean =>
  status === 501 || ((status === 503 || status === 504) && LATE_ANSWER.test(text));
