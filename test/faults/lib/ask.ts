// Requests as clients, right and wrong ones, send them: over connections that stay open, with headers that fetch would refuse.
import { Agent, type OutgoingHttpHeaders, request } from "node:http";
import { buffer } from "node:stream/consumers";
import * as z from "zod";

export interface Question {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
  /** Says that nothing more comes although less, or more, came than the headers promise. */
  readonly endsHere?: boolean;
  readonly timeoutMs?: number;
}

export interface Reply {
  /** 0 where the connection ended without an answer, or nothing came in time. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The body, or why there is none. */
  readonly text: string;
  readonly ms: number;
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

export async function ask(origin: string, question: Question): Promise<Reply> {
  const reply = await askOnce(origin, question);
  // The server closed a connection that was kept open, just when it was used again.
  return reply.status === 0 && reply.text === STALE ? await askOnce(origin, question) : reply;
}

const STALE = "a kept connection was closed";
/** A larger body waits a moment for a refusal by its length, whose connection ends while it is sent. */
const LARGE_BYTES = 65_536;
const REFUSED_WITHIN_MS = 100;

function askOnce(
  origin: string,
  { method, path, headers, body, endsHere = false, timeoutMs = 30_000 }: Question,
): Promise<Reply> {
  const { hostname, port } = new URL(origin);
  const startedAtMs = performance.now();
  const all: OutgoingHttpHeaders = {
    ...(body === undefined
      ? {}
      : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
    ...headers,
  };
  return new Promise((resolve) => {
    const done = (status: number, text: string, of: Reply["headers"] = {}) =>
      resolve({ status, text, headers: of, ms: performance.now() - startedAtMs });
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
          ? STALE
          : error.message,
      ),
    );
    if (endsHere) outgoing.on("finish", () => outgoing.socket?.end());
    const isLarge = body !== undefined && Buffer.byteLength(body) > LARGE_BYTES;
    if (isLarge) outgoing.flushHeaders();
    else outgoing.end(body);
    const sending = isLarge ? setTimeout(() => outgoing.end(body), REFUSED_WITHIN_MS) : undefined;
  });
}

/** Works off `count` calls, several at a time. */
export async function inParallel(
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

export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const refusal = z.union([
  z.object({ error: z.string().min(1) }),
  z.object({ code: z.string().min(1), detail: z.string().min(1), remedy: z.string().min(1) }),
]);

/** Whether a refusal says what was wrong, in one of the two forms. */
export const saysWhy = ({ text }: Reply): boolean => refusal.safeParse(jsonOf(text)).success;

export const shown = ({ status, text, ms }: Reply): string =>
  `${status} after ${Math.round(ms)} ms: ${text.slice(0, 200)}`;

/** Answers from 500 on that are no failures: a deadline or time-out may be a moment that has passed; 501 refuses what there is elsewhere. */
export const isLateOrUnsupported = ({ status, text }: Reply): boolean =>
  status === 501 ||
  ((status === 503 || status === 504) &&
    /timeout expired|could answer within|takes up to/.test(text));
