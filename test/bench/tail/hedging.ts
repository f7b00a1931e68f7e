// 1 % of the calls to regions take 50 times as long. Runs with and without hedging alternate.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import { createSender, openLoop } from "../lib/checked-load.ts";
import type { Random } from "../lib/random.ts";
import { createPredictCall, type OutcomeCounts, recordOutcome } from "./calls.ts";
import type { TailSystem } from "./tail-system.ts";

const SLOW_SHARE = 0.01;
const SLOWDOWN_FACTOR = 50;
const BLOCKS = 6;
const WARM_UP_CALLS = 400;

export interface HedgingResult {
  readonly n: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
  readonly regionCalls: number;
  readonly extraCallsShare: number;
  readonly errors: number;
  readonly degraded: number;
}

/** @returns without hedging, and with it */
export async function measureHedging(
  system: TailSystem,
  queries: readonly string[],
  options: {
    readonly n: number;
    readonly rate: number;
    readonly networkDelayMs: number;
    readonly random: Random;
  },
): Promise<readonly [HedgingResult, HedgingResult]> {
  const { n, rate, networkDelayMs, random } = options;
  const arms = [];
  for (const variables of [{ EDGETIER_REGION_EXTRA_CALLS_SHARE: "0" }, {}]) {
    const edge = await system.startEdge(variables);
    arms.push({
      edge,
      send: createSender(edge.url),
      latenciesMs: [] as number[],
      regionCalls: 0,
      tally: { answers: 0, degraded: 0, errors: 0 } satisfies OutcomeCounts,
    });
  }
  const proxies = [...system.regions.values()].map(({ proxy }) => proxy);
  const draw = (count: number) =>
    Array.from({ length: count }, () => createPredictCall(random.pick(queries)));
  try {
    for (const { send } of arms) await openLoop(send, draw(WARM_UP_CALLS), rate, random, () => {});
    proxies.forEach(
      (proxy, index) =>
        (proxy.fault = {
          kind: "slow",
          delayMs: networkDelayMs * (SLOWDOWN_FACTOR - 1),
          share: SLOW_SHARE,
          seed: index + 1,
          matching: /\/infer$/,
        }),
    );
    for (let block = 0; block < BLOCKS; block++) {
      for (const arm of arms) {
        for (const proxy of proxies) proxy.clearHistory();
        const { latenciesMs } = await openLoop(
          arm.send,
          draw(Math.ceil(n / BLOCKS)),
          rate,
          random,
          (reply) => void recordOutcome(reply, arm.tally),
        );
        arm.latenciesMs.push(...latenciesMs);
        arm.regionCalls += proxies.reduce(
          (sum, { receivedRequests: seen }) =>
            sum + seen.filter(({ path }) => path.endsWith("/infer")).length,
          0,
        );
      }
      console.error(`slow calls: block ${block + 1} of ${BLOCKS}`);
    }
  } finally {
    for (const proxy of proxies) proxy.fault = { kind: "none" };
    for (const { edge, send } of arms) {
      send.close();
      await edge.stop();
    }
  }
  const [off, on] = arms.map(
    ({ latenciesMs, regionCalls, tally: { answers, degraded, errors } }): HedgingResult => ({
      n: answers,
      p50Ms: quantile(latenciesMs, 0.5),
      p99Ms: quantile(latenciesMs, 0.99),
      p999Ms: quantile(latenciesMs, 0.999),
      maxMs: quantile(latenciesMs, 1),
      regionCalls,
      extraCallsShare: regionCalls / answers - 1,
      errors,
      degraded,
    }),
  );
  if (off === undefined || on === undefined) throw new Error("two arms were measured");
  return [off, on];
}
