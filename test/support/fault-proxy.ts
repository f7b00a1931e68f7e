// A reverse proxy for HTTP in front of a real server, which breaks what goes through it on demand. Node only.
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { seededRandom } from "../../src/toolchain/seeded-random.ts";

/** The fault injected into requests; with `matching`, only into requests whose "<method> <path>" matches. */
export type Fault = { readonly matching?: RegExp } & (
  | { readonly kind: "none" }
  /** Resets connections, without `matching` open ones too. */
  | { readonly kind: "resets" }
  /** Takes requests and never answers. */
  | { readonly kind: "hangs" }
  /** Takes requests, and resets their connections later. */
  | { readonly kind: "halfOpen"; readonly resetAfterMs: number }
  | { readonly kind: "status"; readonly status: number; readonly body?: string }
  /** Passes a share of the requests on, all by default, only after a while. */
  | {
      readonly kind: "slow";
      readonly delayMs: number;
      readonly share?: number;
      readonly seed?: number;
    }
  /** Ends answers in the middle of their body. */
  | { readonly kind: "truncates" }
  /** Changes one byte of each answer's body. */
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
  /** Origin of the server behind it. */
  target: string;
  fault: Fault;
  /** How far away the server is: what passing a request on takes, whatever the fault. */
  latencyMs: number;
  /** Since the last `clearHistory`. */
  readonly receivedRequests: readonly ReceivedRequest[];
  /** Requests whose client left before it had its answer, since the last `clearHistory`. */
  readonly disconnectCount: number;
  /** The last forwarded request with a body, for replays. */
  readonly lastForwardedRequest: CapturedRequest | undefined;
  clearHistory(): void;
  close(): Promise<void>;
}

/** Hop-by-hop headers, which are not forwarded. */
const HOP_BY_HOP = new Set(["connection", "keep-alive", "expect"]);
/** Longer than clients keep connections, so that none meets one that is just being closed. */
const KEEP_ALIVE_MS = 75_000;

export async function startFaultProxy(target = ""): Promise<FaultProxy> {
  const agent = new Agent({ keepAlive: true });
  const open = new Set<Socket>();
  let fault: Fault = { kind: "none" };
  let random = seededRandom(0);
  let seen: ReceivedRequest[] = [];
  let abandoned = 0;
  let captured: CapturedRequest | undefined;

  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS, requestTimeout: 0 }, answer);
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    if (refusesAll()) socket.resetAndDestroy();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

  const refusesAll = () => fault.kind === "resets" && fault.matching === undefined;

  function faultOf({ method = "", url = "" }: IncomingMessage): Fault {
    if (fault.matching?.test(`${method} ${url}`) === false) return { kind: "none" };
    return fault.kind === "slow" && random() >= (fault.share ?? 1) ? { kind: "none" } : fault;
  }

  function answer(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const found = faultOf(incoming);
    seen.push({
      atMs: performance.now(),
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      isFaulty: found.kind !== "none",
    });
    let leave = () => {};
    const timer = (act: () => void, afterMs: number) => {
      const timeout = setTimeout(act, afterMs);
      leave = () => clearTimeout(timeout);
    };
    outgoing.on("close", () => {
      if (!outgoing.writableFinished && outgoing.errored === null) abandoned++;
      leave();
    });
    const forward = () => void (leave = pass(incoming, outgoing, found));
    switch (found.kind) {
      case "resets":
        return resetConnection(outgoing);
      case "hangs":
        return void incoming.resume();
      case "halfOpen":
        incoming.resume();
        return timer(() => resetConnection(outgoing), found.resetAfterMs);
      case "status":
        incoming.resume();
        return void outgoing.writeHead(found.status).end(found.body);
      default: {
        const delayMs = proxy.latencyMs + (found.kind === "slow" ? found.delayMs : 0);
        if (delayMs > 0) timer(forward, delayMs);
        else forward();
      }
    }
  }

  /** @returns what ends it, if the client leaves */
  function pass(incoming: IncomingMessage, outgoing: ServerResponse, found: Fault): () => void {
    const { hostname, port } = new URL(proxy.target);
    const upstream = request({
      agent,
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
      if (found.kind === "truncates" || found.kind === "corrupts")
        void spoil(response, outgoing, found);
      else
        response.pipe(
          outgoing.writeHead(
            response.statusCode ?? 502,
            withoutHopByHopHeaders(response.rawHeaders),
          ),
        );
    });
    incoming.pipe(upstream);
    if (incoming.method === "POST") void capture(incoming);
    return () => void upstream.destroy();
  }

  async function capture(incoming: IncomingMessage): Promise<void> {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    await once(incoming, "end").catch(() => {});
    const headers = Object.entries(incoming.headers).flatMap(([name, value]) =>
      typeof value === "string" && !HOP_BY_HOP.has(name) ? [[name, value]] : [],
    );
    captured = {
      path: incoming.url ?? "",
      headers: Object.fromEntries(headers),
      body: new Uint8Array(Buffer.concat(parts)),
    };
  }

  async function spoil(
    response: IncomingMessage,
    outgoing: ServerResponse,
    { kind }: Fault,
  ): Promise<void> {
    const body = await buffer(response).catch(() => undefined);
    if (body === undefined) return resetConnection(outgoing);
    outgoing.writeHead(response.statusCode ?? 502, withoutHopByHopHeaders(response.rawHeaders));
    if (body.byteLength === 0) return void outgoing.end();
    if (kind === "truncates")
      return void outgoing.write(body.subarray(0, body.byteLength >> 1), () =>
        outgoing.socket?.destroy(),
      );
    const at = Math.floor(random() * body.byteLength);
    body[at] = (body[at] ?? 0) ^ (1 + Math.floor(random() * 255));
    outgoing.end(body);
  }

  const proxy: FaultProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    target,
    latencyMs: 0,
    get fault() {
      return fault;
    },
    set fault(wanted) {
      fault = wanted;
      random = seededRandom("seed" in wanted ? (wanted.seed ?? 0) : 0);
      if (refusesAll()) for (const socket of open) socket.resetAndDestroy();
    },
    get receivedRequests() {
      return seen;
    },
    get disconnectCount() {
      return abandoned;
    },
    get lastForwardedRequest() {
      return captured;
    },
    clearHistory() {
      captured = undefined;
      seen = [];
      abandoned = 0;
    },
    async close() {
      server.closeAllConnections();
      agent.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}

function resetConnection(outgoing: ServerResponse): void {
  outgoing.socket?.resetAndDestroy();
}

/** Alternating names and values, as in `rawHeaders`. */
function withoutHopByHopHeaders(raw: readonly string[]): string[] {
  return raw.filter((_, index) => !HOP_BY_HOP.has((raw[index - (index % 2)] ?? "").toLowerCase()));
}
