// Load on an HTTP address: open loop for latencies (MLPerf's server scenario), closed loop for throughput.
import { Agent, request } from "node:http";
import { pace } from "./pacer.ts";
import type { Random } from "./random.ts";

/** The pacing thread is up by then. */
const START_AFTER_MS = 200;

export interface Call {
  readonly path: string;
  readonly body?: string;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export interface Latencies {
  readonly n: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export type Send = (call: Call) => Promise<Reply>;

/** Keeps connections open; at most `sockets` at a time. */
export function createSender(origin: string, sockets = 64): Send & { close(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: sockets });
  const { hostname, port } = new URL(origin);
  const send = ({ path, body }: Call) =>
    new Promise<Reply>((resolve, reject) => {
      const headers = body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
      const call = request({ agent, hostname, port, path, method: body === undefined ? "GET" : "POST", headers }, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => (text += chunk));
        response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
        response.on("error", reject);
      });
      call.on("error", reject);
      call.end(body);
    });
  return Object.assign(send, { close: () => agent.destroy() });
}

/**
 * Sends each call at its scheduled moment, whether or not earlier ones were answered, and measures from that moment:
 * a stall then costs every call that fell into it (no coordinated omission).
 * @param ratePerSecond mean of the Poisson arrivals
 * @throws on a reply that `check` refuses
 */
export async function openLoop(send: Send, calls: readonly Call[], ratePerSecond: number, random: Random, check: (reply: Reply) => void): Promise<Latencies> {
  const latenciesMs: number[] = [];
  let lastMs = performance.now() + START_AFTER_MS;
  const dueAtMs = calls.map(() => (lastMs += random.exponential(1000 / ratePerSecond)));
  const pending: Promise<void>[] = [];
  await pace(dueAtMs, (index) => {
    const answered = send(calls[index] as Call).then((reply) => {
      latenciesMs.push(performance.now() - (dueAtMs[index] ?? Number.NaN));
      check(reply);
    });
    answered.catch(() => {}); // it is awaited below
    pending.push(answered);
  });
  await Promise.all(pending);
  return summarise(latenciesMs);
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
