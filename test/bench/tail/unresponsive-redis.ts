// Redis accepts requests under load, but no longer answers: the cost of its timeout, and the cost once the breaker is open.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import type { FaultProxy } from "../../support/fault-proxy.ts";
import { createSender, openLoop } from "../lib/checked-load.ts";
import type { Random } from "../lib/random.ts";
import { createPredictCall, recordOutcome } from "./calls.ts";
import type { TailSystem } from "./tail-system.ts";

const BLOCKS = 4;
const CALLS_PER_BLOCK = 400;

export interface UnresponsiveRedisResult {
  readonly n: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly errors: number;
  /** Number of calls that reached Redis. */
  readonly redisCalls: number;
}

/** @param timeoutMs of L2 @returns while Redis answers, and while it is frozen */
export async function measureUnresponsiveRedis(
  system: TailSystem,
  redis: FaultProxy,
  queries: readonly string[],
  {
    rate,
    random,
    timeoutMs,
  }: { readonly rate: number; readonly random: Random; readonly timeoutMs: number },
): Promise<readonly [UnresponsiveRedisResult, UnresponsiveRedisResult]> {
  // Nothing is found in L1, so that each request asks L2.
  const edge = await system.startEdge({
    EDGETIER_L1_MAX_BYTES: "0",
    EDGETIER_REDIS_TIMEOUT_MS: String(timeoutMs),
  });
  const send = createSender(edge.url);
  const arms = [{ kind: "none" }, { kind: "hangs" }].map((fault) => ({
    fault: fault as FaultProxy["fault"],
    latenciesMs: [] as number[],
    redisCalls: 0,
    tally: { answers: 0, degraded: 0, errors: 0 },
  }));
  const draw = (count: number) =>
    Array.from({ length: count }, () => createPredictCall(random.pick(queries), "use"));
  try {
    await openLoop(send, draw(400), rate, random, () => {});
    for (let block = 0; block < BLOCKS; block++) {
      for (const arm of arms) {
        redis.clearHistory();
        redis.fault = arm.fault;
        const { latenciesMs } = await openLoop(
          send,
          draw(CALLS_PER_BLOCK),
          rate,
          random,
          (reply) => void recordOutcome(reply, arm.tally),
        );
        arm.latenciesMs.push(...latenciesMs);
        arm.redisCalls += redis.receivedRequests.length;
      }
    }
  } finally {
    redis.fault = { kind: "none" };
    send.close();
    await edge.stop();
  }
  const [answers, frozen] = arms.map(
    ({ latenciesMs, redisCalls, tally: { answers: n, errors } }): UnresponsiveRedisResult => ({
      n,
      p50Ms: quantile(latenciesMs, 0.5),
      p99Ms: quantile(latenciesMs, 0.99),
      maxMs: quantile(latenciesMs, 1),
      errors,
      redisCalls,
    }),
  );
  if (answers === undefined || frozen === undefined) throw new Error("two arms were measured");
  return [answers, frozen];
}
