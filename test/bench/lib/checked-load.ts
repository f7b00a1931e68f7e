import { schedulePoissonMs } from "../../../src/cli/load/arrivals.ts";
import type { Call, Reply, Send } from "../../../src/cli/load/http-sender.ts";
import * as loops from "../../../src/cli/load/open-loop.ts";
// Checked load: the loops and the client of `edgetier bench`, which fail on an unexpected reply.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import type { Random } from "./random.ts";

export {
  type Call,
  createSender,
  type Reply,
  type Send,
} from "../../../src/cli/load/http-sender.ts";

export interface Latencies {
  readonly n: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** Latencies of an open loop, its client's processor time, and the client's lag behind its schedule. */
export interface OpenLoopResult extends Latencies {
  readonly latenciesMs: readonly number[];
  readonly sentLateP99Ms: number;
  readonly clientCpuMs: number;
  readonly seconds: number;
}

/**
 * Sends each call at its scheduled moment, and measures from that moment.
 * @param ratePerSecond mean of the Poisson arrivals
 * @throws on a reply that `check` rejects
 */
export async function openLoop(
  send: Send,
  calls: readonly Call[],
  ratePerSecond: number,
  random: Random,
  check: (reply: Reply) => void,
): Promise<OpenLoopResult> {
  const latenciesMs: number[] = [];
  const sentLateMs: number[] = [];
  const problems: unknown[] = [];
  const cpuBefore = process.cpuUsage();
  const durationMs = await loops.openLoop(
    schedulePoissonMs(calls.length, ratePerSecond, random),
    async (index) => await send(calls[index] as Call),
    {
      sent: (_, lateMs) => void sentLateMs.push(lateMs),
      answered(_, latencyMs, reply) {
        latenciesMs.push(latencyMs);
        try {
          check(reply);
        } catch (problem) {
          problems.push(problem);
        }
      },
      failed: (_, __, error) => void problems.push(error),
    },
  );
  if (problems.length > 0) throw problems[0];
  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    ...summarizeLatencies(latenciesMs),
    latenciesMs,
    sentLateP99Ms: quantile(sentLateMs, 0.99),
    clientCpuMs: (user + system) / 1000,
    seconds: durationMs / 1000,
  };
}

/** `connections` callers, each sending its next call when its last is answered, for `seconds`. @returns calls per second */
export async function closedLoop(
  send: Send,
  nextCall: () => Call,
  connections: number,
  seconds: number,
  check: (reply: Reply) => void,
): Promise<number> {
  return await loops.closedLoop(async () => check(await send(nextCall())), {
    concurrency: connections,
    durationSeconds: seconds,
  });
}

export function summarizeLatencies(latenciesMs: readonly number[]): Latencies {
  const at = (share: number) => quantile(latenciesMs, share);
  return { n: latenciesMs.length, p50Ms: at(0.5), p95Ms: at(0.95), p99Ms: at(0.99), maxMs: at(1) };
}
