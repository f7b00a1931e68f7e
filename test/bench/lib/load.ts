// Load on an HTTP address: open loop for latencies (MLPerf's server scenario), closed loop for throughput.
import { Agent, type IncomingMessage, request } from "node:http";
import { pace } from "./pacer.ts";
import type { Random } from "./random.ts";

/** The pacing thread is up by then. */
const START_AFTER_MS = 200;

export interface Call {
  readonly path: string;
  /** JSON unless `headers` say otherwise. */
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Uint8Array;
  /** `bytes` as a text. */
  readonly body: string;
}

export interface Latencies {
  readonly n: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** What an open loop cost its client, and how far behind its schedule the client itself was: beyond that it measures itself. */
export interface OpenLoopResult extends Latencies {
  readonly latenciesMs: readonly number[];
  readonly sentLateP99Ms: number;
  readonly clientCpuMs: number;
  readonly seconds: number;
}

export type Send = (call: Call) => Promise<Reply>;

/** The server closed a connection that was kept open, just when it was used again. */
class StaleConnectionError extends Error {
  override readonly message = "the server closes connections that are in use";
}

/** Keeps connections open; at most `sockets` at a time. */
export function createSender(origin: string, sockets = 64): Send & { close(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: sockets });
  const { hostname, port } = new URL(origin);
  const send = async (call: Call): Promise<Reply> => {
    for (let left = sockets; ; left--) {
      try {
        return await sendOnce(call);
      } catch (error) {
        if (!(error instanceof StaleConnectionError) || left === 0) throw error; // others that are kept open may be as stale
      }
    }
  };
  const sendOnce = ({ path, body, headers: own }: Call) =>
    new Promise<Reply>((resolve, reject) => {
      const headers = body === undefined ? own : { "content-type": "application/json", ...own, "content-length": Buffer.byteLength(body) };
      const call = request({ agent, hostname, port, path, method: body === undefined ? "GET" : "POST", ...(headers && { headers }) }, (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("end", () => resolve(replyOf(response, parts)));
        response.on("error", reject);
      });
      call.on("error", (error) => reject(call.reusedSocket && "code" in error && error.code === "ECONNRESET" ? new StaleConnectionError() : error));
      call.end(body);
    });
  return Object.assign(send, { close: () => agent.destroy() });
}

function replyOf({ statusCode = 0, headers }: IncomingMessage, parts: readonly Buffer[]): Reply {
  const bytes = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  return {
    status: statusCode,
    headers,
    bytes: new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength), // a Buffer's slice() would not copy
    get body() {
      return bytes.toString();
    },
  };
}

/**
 * Sends each call at its scheduled moment, whether or not earlier ones were answered, and measures from that moment:
 * a stall then costs every call that fell into it (no coordinated omission).
 * @param ratePerSecond mean of the Poisson arrivals
 * @throws on a reply that `check` refuses
 */
export async function openLoop(send: Send, calls: readonly Call[], ratePerSecond: number, random: Random, check: (reply: Reply) => void): Promise<OpenLoopResult> {
  const latenciesMs: number[] = [];
  const sentLateMs: number[] = [];
  const startedAtMs = performance.now() + START_AFTER_MS;
  let lastMs = startedAtMs;
  const dueAtMs = calls.map(() => (lastMs += random.exponential(1000 / ratePerSecond)));
  const pending: Promise<void>[] = [];
  const cpuBefore = process.cpuUsage();
  await pace(dueAtMs, (index) => {
    sentLateMs.push(performance.now() - (dueAtMs[index] ?? Number.NaN));
    const answered = send(calls[index] as Call).then((reply) => {
      latenciesMs.push(performance.now() - (dueAtMs[index] ?? Number.NaN));
      check(reply);
    });
    answered.catch(() => {}); // it is awaited below
    pending.push(answered);
  });
  await Promise.all(pending);
  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    ...summarise(latenciesMs),
    latenciesMs,
    sentLateP99Ms: summarise(sentLateMs).p99Ms,
    clientCpuMs: (user + system) / 1000,
    seconds: (performance.now() - startedAtMs) / 1000,
  };
}

/** `connections` callers, each sending its next call when its last is answered, for `seconds`. @returns calls a second */
export async function closedLoop(send: Send, nextCall: () => Call, connections: number, seconds: number, check: (reply: Reply) => void): Promise<number> {
  const startAtMs = performance.now();
  const endAtMs = startAtMs + seconds * 1000;
  let done = 0;
  const caller = async () => {
    while (performance.now() < endAtMs) {
      check(await send(nextCall()));
      done++;
    }
  };
  await Promise.all(Array.from({ length: connections }, caller));
  return (done * 1000) / (performance.now() - startAtMs);
}

export function summarise(latenciesMs: readonly number[]): Latencies {
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
  return { n: sorted.length, p50Ms: at(0.5), p95Ms: at(0.95), p99Ms: at(0.99), maxMs: sorted.at(-1) ?? Number.NaN };
}
