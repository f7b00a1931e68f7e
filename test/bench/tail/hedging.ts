// Hedging under slow calls: 1 % of the region calls take 50 times as long. Blocks with and without hedging alternate.
import type { WorkerdEdge } from "../../../src/cli/local/workerd-edge.ts";
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import type { FaultProxy } from "../../support/fault-proxy.ts";
import { createSender, openLoop, type Send } from "../lib/checked-load.ts";
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

export interface HedgingOptions {
  /** Calls of each arm. */
  readonly n: number;
  /** Calls per second. */
  readonly rate: number;
  readonly networkDelayMs: number;
  readonly random: Random;
}

/** One configuration of the edge under test, and its measurements. */
interface Arm {
  readonly edge: WorkerdEdge;
  readonly send: Send & { close(): void };
  readonly latenciesMs: number[];
  readonly outcomes: OutcomeCounts;
  regionCalls: number;
}

/** @returns the results without hedging and with hedging */
export async function measureHedging(
  system: TailSystem,
  queries: readonly string[],
  options: HedgingOptions,
): Promise<readonly [HedgingResult, HedgingResult]> {
  const { n, rate, networkDelayMs, random } = options;
  const withoutHedging = await startArm(system, { EDGETIER_REGION_EXTRA_CALLS_SHARE: "0" });
  const withHedging = await startArm(system, {});
  const arms = [withoutHedging, withHedging];
  const proxies = [...system.regions.values()].map(({ proxy }) => proxy);
  const drawCalls = (count: number) =>
    Array.from({ length: count }, () => createPredictCall(random.pick(queries)));
  try {
    for (const { send } of arms)
      await openLoop(send, drawCalls(WARM_UP_CALLS), rate, random, () => {});
    slowDownShare(proxies, networkDelayMs);
    for (let block = 0; block < BLOCKS; block++) {
      for (const arm of arms) {
        for (const proxy of proxies) proxy.clearHistory();
        const { latenciesMs } = await openLoop(
          arm.send,
          drawCalls(Math.ceil(n / BLOCKS)),
          rate,
          random,
          (reply) => void recordOutcome(reply, arm.outcomes),
        );
        arm.latenciesMs.push(...latenciesMs);
        arm.regionCalls += countInferCalls(proxies);
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
  return [summarizeArm(withoutHedging), summarizeArm(withHedging)];
}

async function startArm(
  system: TailSystem,
  variables: Readonly<Record<string, string>>,
): Promise<Arm> {
  const edge = await system.startEdge(variables);
  return {
    edge,
    send: createSender(edge.url),
    latenciesMs: [],
    outcomes: { answers: 0, degraded: 0, errors: 0 },
    regionCalls: 0,
  };
}

/** The seeds differ, so that the regions are not slow for the same calls. */
function slowDownShare(proxies: readonly FaultProxy[], networkDelayMs: number): void {
  for (const [index, proxy] of proxies.entries())
    proxy.fault = {
      kind: "slow",
      delayMs: networkDelayMs * (SLOWDOWN_FACTOR - 1),
      share: SLOW_SHARE,
      seed: index + 1,
      matching: /\/infer$/,
    };
}

const countInferCalls = (proxies: readonly FaultProxy[]): number =>
  proxies
    .flatMap(({ receivedRequests }) => receivedRequests)
    .filter(({ path }) => path.endsWith("/infer")).length;

function summarizeArm({ latenciesMs, regionCalls, outcomes }: Arm): HedgingResult {
  const { answers, degraded, errors } = outcomes;
  return {
    n: answers,
    p50Ms: quantile(latenciesMs, 0.5),
    p99Ms: quantile(latenciesMs, 0.99),
    p999Ms: quantile(latenciesMs, 0.999),
    maxMs: quantile(latenciesMs, 1),
    regionCalls,
    extraCallsShare: regionCalls / answers - 1,
    errors,
    degraded,
  };
}
