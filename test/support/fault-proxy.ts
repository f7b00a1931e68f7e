// Fault proxy: an HTTP reverse proxy in front of a real server that injects faults on demand. Node only.
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { seededRandom } from "../../src/toolchain/seeded-random.ts";

/** The fault injected into requests; with `matching`, only into requests whose "<method> <path>" matches. */
export type Fault = { readonly matching?: RegExp } & (
  | { readonly kind: "none" }
  /** Resets connections. Without `matching`, open connections are reset too. */
  | { readonly kind: "resets" }
  /** Reads requests and never responds. */
  | { readonly kind: "hangs" }
  /** Reads requests and resets their connections later. */
  | { readonly kind: "halfOpen"; readonly resetAfterMs: number }
  | { readonly kind: "status"; readonly status: number; readonly body?: string }
  /** Delays a share of the requests; all of them by default. */
  | {
      readonly kind: "slow";
      readonly delayMs: number;
      readonly share?: number;
      readonly seed?: number;
    }
  /** Cuts responses off in the middle of their body. */
  | { readonly kind: "truncates" }
  /** Changes one byte of each response body. */
  | { readonly kind: "corrupts"; readonly seed?: number }
);

export interface ReceivedRequest {
  /** Time of `performance.now()`. */
  readonly atMs: number;
  readonly method: string;
  readonly path: string;
  readonly isFaulty: boolean;
}

export interface CapturedRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export interface FaultProxy {
  readonly url: string;
  /** Origin of the server behind the proxy. */
  target: string;
  fault: Fault;
  /** Network delay of every forwarded request, in addition to the fault. */
  latencyMs: number;
  /** Requests since the last `clearHistory`. */
  readonly receivedRequests: readonly ReceivedRequest[];
  /** Requests whose client disconnected before the end of the response, since the last `clearHistory`. */
  readonly disconnectCount: number;
  /** The last forwarded request with a body, for replays. */
  readonly lastForwardedRequest: CapturedRequest | undefined;
  clearHistory(): void;
  close(): Promise<void>;
}

/** Hop-by-hop headers are not forwarded. */
const HOP_BY_HOP = new Set(["connection", "keep-alive", "expect"]);
/** Clients keep connections for a shorter time, so none sends a request into a connection that is closing. */
const KEEP_ALIVE_MS = 75_000;

interface ProxyState {
  readonly agent: Agent;
  target: string;
  latencyMs: number;
  fault: Fault;
  random: () => number;
  receivedRequests: ReceivedRequest[];
  disconnectCount: number;
  lastForwardedRequest: CapturedRequest | undefined;
}

interface Exchange {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly fault: Fault;
}

export async function startFaultProxy(target = ""): Promise<FaultProxy> {
  const state: ProxyState = {
    agent: new Agent({ keepAlive: true }),
    target,
    latencyMs: 0,
    fault: { kind: "none" },
    random: seededRandom(0),
    receivedRequests: [],
    disconnectCount: 0,
    lastForwardedRequest: undefined,
  };
  const { server, openSockets } = await startServer(state);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get target() {
      return state.target;
    },
    set target(origin) {
      state.target = origin;
    },
    get latencyMs() {
      return state.latencyMs;
    },
    set latencyMs(delayMs) {
      state.latencyMs = delayMs;
    },
    get fault() {
      return state.fault;
    },
    set fault(fault) {
      state.fault = fault;
      state.random = seededRandom("seed" in fault ? (fault.seed ?? 0) : 0);
      if (resetsAll(fault)) for (const socket of openSockets) socket.resetAndDestroy();
    },
    get receivedRequests() {
      return state.receivedRequests;
    },
    get disconnectCount() {
      return state.disconnectCount;
    },
    get lastForwardedRequest() {
      return state.lastForwardedRequest;
    },
    clearHistory() {
      state.lastForwardedRequest = undefined;
      state.receivedRequests = [];
      state.disconnectCount = 0;
    },
    async close() {
      server.closeAllConnections();
      state.agent.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function startServer(state: ProxyState) {
  const openSockets = new Set<Socket>();
  const server = createServer(
    { keepAliveTimeout: KEEP_ALIVE_MS, requestTimeout: 0 },
    (incoming, outgoing) => handleRequest(state, incoming, outgoing),
  );
  server.on("connection", (socket: Socket) => {
    openSockets.add(socket);
    socket.on("close", () => openSockets.delete(socket));
    if (resetsAll(state.fault)) socket.resetAndDestroy();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, openSockets };
}

const resetsAll = (fault: Fault): boolean =>
  fault.kind === "resets" && fault.matching === undefined;

function handleRequest(
  state: ProxyState,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): void {
  const fault = selectFault(state, incoming);
  state.receivedRequests.push({
    atMs: performance.now(),
    method: incoming.method ?? "",
    path: incoming.url ?? "",
    isFaulty: fault.kind !== "none",
  });
  let cancel = () => {};
  outgoing.on("close", () => {
    if (!outgoing.writableFinished && outgoing.errored === null) state.disconnectCount++;
    cancel();
  });
  const runLater = (action: () => void, afterMs: number) => {
    const timeout = setTimeout(action, afterMs);
    cancel = () => clearTimeout(timeout);
  };
  const forward = () => {
    cancel = forwardRequest(state, { incoming, outgoing, fault });
  };
  switch (fault.kind) {
    case "resets":
      return resetConnection(outgoing);
    case "hangs":
      return void incoming.resume();
    case "halfOpen":
      incoming.resume();
      return runLater(() => resetConnection(outgoing), fault.resetAfterMs);
    case "status":
      incoming.resume();
      return void outgoing.writeHead(fault.status).end(fault.body);
    default: {
      const delayMs = state.latencyMs + (fault.kind === "slow" ? fault.delayMs : 0);
      if (delayMs > 0) runLater(forward, delayMs);
      else forward();
    }
  }
}

/** Returns the fault of one request: `none` if the request does not match or its share is not drawn. */
function selectFault(
  { fault, random }: ProxyState,
  { method = "", url = "" }: IncomingMessage,
): Fault {
  if (fault.matching?.test(`${method} ${url}`) === false) return { kind: "none" };
  return fault.kind === "slow" && random() >= (fault.share ?? 1) ? { kind: "none" } : fault;
}

/** @returns a function that cancels the forwarded request if the client disconnects */
function forwardRequest(state: ProxyState, exchange: Exchange): () => void {
  const { incoming, outgoing, fault } = exchange;
  const { hostname, port } = new URL(state.target);
  const upstream = request({
    agent: state.agent,
    hostname,
    port,
    method: incoming.method,
    path: incoming.url,
    headers: withoutHopByHopHeaders(incoming.rawHeaders),
    setHost: false,
  });
  upstream.on("error", () => resetConnection(outgoing));
  upstream.on("response", (response) => {
    response.on("error", () => resetConnection(outgoing));
    if (fault.kind === "truncates" || fault.kind === "corrupts")
      void sendSpoiledResponse(state, response, exchange);
    else response.pipe(writeResponseHead(outgoing, response));
  });
  incoming.pipe(upstream);
  if (incoming.method === "POST") void captureRequest(state, incoming);
  return () => void upstream.destroy();
}

async function captureRequest(state: ProxyState, incoming: IncomingMessage): Promise<void> {
  const chunks: Buffer[] = [];
  incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(incoming, "end").catch(() => {});
  const headers = Object.entries(incoming.headers).flatMap(([name, value]) =>
    typeof value === "string" && !HOP_BY_HOP.has(name) ? [[name, value]] : [],
  );
  state.lastForwardedRequest = {
    path: incoming.url ?? "",
    headers: Object.fromEntries(headers),
    body: new Uint8Array(Buffer.concat(chunks)),
  };
}

/** Sends half of the response body, or the whole body with one changed byte. */
async function sendSpoiledResponse(
  state: ProxyState,
  response: IncomingMessage,
  { outgoing, fault: { kind } }: Exchange,
): Promise<void> {
  const body = await buffer(response).catch(() => undefined);
  if (body === undefined) return resetConnection(outgoing);
  writeResponseHead(outgoing, response);
  if (body.byteLength === 0) return void outgoing.end();
  if (kind === "truncates")
    return void outgoing.write(body.subarray(0, body.byteLength >> 1), () =>
      outgoing.socket?.destroy(),
    );
  const offset = Math.floor(state.random() * body.byteLength);
  body[offset] = (body[offset] ?? 0) ^ (1 + Math.floor(state.random() * 255));
  outgoing.end(body);
}

const writeResponseHead = (outgoing: ServerResponse, response: IncomingMessage): ServerResponse =>
  outgoing.writeHead(response.statusCode ?? 502, withoutHopByHopHeaders(response.rawHeaders));

function resetConnection(outgoing: ServerResponse): void {
  outgoing.socket?.resetAndDestroy();
}

/** Takes and returns alternating names and values, as in `rawHeaders`. */
function withoutHopByHopHeaders(rawHeaders: readonly string[]): string[] {
  return rawHeaders.filter(
    (_, index) => !HOP_BY_HOP.has((rawHeaders[index - (index % 2)] ?? "").toLowerCase()),
  );
}
