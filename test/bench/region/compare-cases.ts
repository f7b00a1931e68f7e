// Compares cases: the highest rate at which each meets the p99, and its latencies at shares of that rate. Cases
// alternate, so that the machine's state affects all alike.
import { isWithinBound } from "../../../src/cli/load/percentile-bound.ts";
import { createRateSearch, type RateSearch } from "../../../src/cli/load/rate-search.ts";
import {
  closedLoop,
  type OpenLoopResult,
  openLoop,
  type Reply,
  summarizeLatencies,
} from "../lib/checked-load.ts";
import { readProcessCpuMs } from "../lib/process-cpu.ts";
import type { Random } from "../lib/random.ts";
import { roundToFourDigits } from "../lib/report.ts";
import { readBatchCounts, batchSizesBetween } from "./batch-sizes.ts";
import type { Target } from "./target.ts";
import type { Workload } from "./workload.ts";

export const P99_BOUND_MS = 50;

export interface BenchCase {
  readonly name: string;
  readonly target: Target;
  readonly workload: Workload;
}

export interface TrialSettings {
  /** Duration of one trial; a low rate takes longer, for `samplesPerTrial`. */
  readonly secondsPerTrial: number;
  readonly samplesPerTrial: number;
  /** Confidence with which a trial must show that the p99 is within the bound. */
  readonly confidence: number;
  /** A search ends when the ratio of the lowest failed rate to the highest passed rate is below this. */
  readonly resolution: number;
  /** Searches for each highest rate; the geometric mean counts. */
  readonly rounds: number;
  readonly random: Random;
}

export type Row = { readonly case: string } & Readonly<Record<string, number | string>>;

const CAPACITY_CALLERS = 64;
const CAPACITY_SECONDS = 1.5;
/** Initial bounds of a search: shares of the closed-loop rate, later of the previous result. */
const [FIRST_LOW, FIRST_HIGH, LATER_LOW, LATER_HIGH] = [0.6, 1.05, 0.9, 1.1];
/** Warm-up before each trial. Memory of an idle server may have been paged out, which slows its first answers. */
const [WARM_UP_CALLERS, WARM_UP_SECONDS] = [16, 1];
/** Above this lag behind its schedule, a client measures mostly itself. */
const MAX_CLIENT_LAG_MS = 5;

/**
 * @param known rates from an earlier search, near which these begin
 * @returns each case's highest rate, NaN if it held none
 */
export async function findHighestRates(
  cases: readonly BenchCase[],
  trialSettings: TrialSettings,
  known: ReadonlyMap<BenchCase, number> = new Map(),
): Promise<Map<BenchCase, number>> {
  const found = new Map<BenchCase, number[]>(cases.map((benchCase) => [benchCase, []]));
  for (let round = 0; round < trialSettings.rounds; round++) {
    const searches = new Map<BenchCase, RateSearch>();
    for (const benchCase of cases) {
      const earlierRates = [known.get(benchCase) ?? [], found.get(benchCase) ?? []].flat();
      searches.set(
        benchCase,
        await startSearch(benchCase, computeGeometricMean(earlierRates), trialSettings),
      );
    }
    for (let isSearching = true; isSearching;) {
      isSearching = false;
      for (const [benchCase, search] of searches) {
        if (search.nextRate === undefined) continue;
        isSearching = true;
        const result = await runLoadAt(benchCase, search.nextRate, trialSettings);
        const overBound = result.latenciesMs.filter((ms) => ms > P99_BOUND_MS).length;
        const holds = isWithinBound(result.n, overBound, 0.99, trialSettings.confidence);
        console.error(
          `${benchCase.name}: ${roundToFourDigits(search.nextRate)} per second ${holds ? "meet" : "miss"} a p99 of ${P99_BOUND_MS} ms (${overBound} of ${result.n} are slower)${formatLateness(result)}`,
        );
        search.record(holds);
      }
    }
    for (const [benchCase, { highestRate }] of searches)
      if (highestRate !== undefined) found.get(benchCase)?.push(highestRate);
  }
  return new Map([...found].map(([benchCase, rates]) => [benchCase, computeGeometricMean(rates)]));
}

async function startSearch(
  { target, workload }: BenchCase,
  earlierRate: number,
  { random, resolution }: TrialSettings,
): Promise<RateSearch> {
  if (earlierRate > 0)
    return createRateSearch({
      low: earlierRate * LATER_LOW,
      high: earlierRate * LATER_HIGH,
      resolution,
    });
  const capacity = await closedLoop(
    target.send,
    () => random.pick(workload.calls),
    CAPACITY_CALLERS,
    CAPACITY_SECONDS,
    assertOk,
  );
  return createRateSearch({ low: capacity * FIRST_LOW, high: capacity * FIRST_HIGH, resolution });
}

export interface RateResult extends OpenLoopResult {
  readonly serverCpuMs: number | undefined;
}

export async function runLoadAt(
  { target, workload }: BenchCase,
  ratePerSecond: number,
  { secondsPerTrial, samplesPerTrial, random }: TrialSettings,
): Promise<RateResult> {
  const n = Math.max(samplesPerTrial, Math.round(ratePerSecond * secondsPerTrial));
  const calls = Array.from({ length: n }, () => random.pick(workload.calls));
  await closedLoop(
    target.send,
    () => random.pick(workload.calls),
    WARM_UP_CALLERS,
    WARM_UP_SECONDS,
    assertOk,
  );
  // A full collection of the client during the trial would raise the p99 of the server.
  globalThis.gc?.();
  const cpuMsBefore = await readProcessCpuMs(target.pid);
  const result = await openLoop(target.send, calls, ratePerSecond, random, assertOk);
  const cpuMsAfter = await readProcessCpuMs(target.pid);
  return {
    ...result,
    serverCpuMs:
      cpuMsBefore === undefined || cpuMsAfter === undefined ? undefined : cpuMsAfter - cpuMsBefore,
  };
}

/** One row per case at its own rate. Cases are measured alternately, `rounds` times, and their samples combined. */
export async function measureLatencyRows(
  rates: ReadonlyMap<BenchCase, number>,
  label: string,
  trialSettings: TrialSettings,
): Promise<Map<BenchCase, Row>> {
  const results = new Map<BenchCase, RateResult[]>();
  const sizesBefore = new Map<BenchCase, Map<number, number> | undefined>();
  for (const benchCase of rates.keys())
    sizesBefore.set(benchCase, await readBatchCounts(benchCase.target, benchCase.workload.model));
  for (let round = 0; round < trialSettings.rounds; round++) {
    for (const [benchCase, rate] of rates) {
      if (!(rate > 0)) continue;
      const result = await runLoadAt(benchCase, rate, trialSettings);
      console.error(
        `${benchCase.name}, ${label}: ${roundToFourDigits(rate)} per second, p99 ${roundToFourDigits(result.p99Ms)} ms${formatLateness(result)}`,
      );
      results.set(benchCase, [...(results.get(benchCase) ?? []), result]);
    }
  }
  const rows = new Map<BenchCase, Row>();
  for (const [benchCase, caseResults] of results) {
    const sizes = batchSizesBetween(
      sizesBefore.get(benchCase),
      await readBatchCounts(benchCase.target, benchCase.workload.model),
    );
    rows.set(benchCase, {
      case: `${benchCase.name}, ${label}`,
      perSecond: roundToFourDigits(rates.get(benchCase) ?? Number.NaN),
      ...computeFigures(caseResults),
      ...sizes,
    });
  }
  return rows;
}

function computeFigures(results: readonly RateResult[]): Record<string, number> {
  const { n, p50Ms, p95Ms, p99Ms } = summarizeLatencies(
    results.flatMap(({ latenciesMs }) => latenciesMs),
  );
  const sum = (valueOf: (result: RateResult) => number) =>
    results.reduce((total, result) => total + valueOf(result), 0);
  const milliseconds = sum(({ seconds }) => seconds) * 1000;
  const serverCpuMs = sum((result) => result.serverCpuMs ?? Number.NaN);
  return {
    n,
    p50Ms: roundToFourDigits(p50Ms),
    p95Ms: roundToFourDigits(p95Ms),
    p99Ms: roundToFourDigits(p99Ms),
    sentLateP99Ms: roundToFourDigits(
      Math.max(...results.map(({ sentLateP99Ms }) => sentLateP99Ms)),
    ),
    clientCores: roundToFourDigits(sum(({ clientCpuMs }) => clientCpuMs) / milliseconds),
    ...(Number.isNaN(serverCpuMs)
      ? {}
      : { serverCores: roundToFourDigits(serverCpuMs / milliseconds) }),
  };
}

export function assertOk(reply: Reply): void {
  if (reply.status !== 200)
    throw new Error(`the server answered ${reply.status}: ${reply.body.slice(0, 200)}`);
}

const formatLateness = ({ sentLateP99Ms }: OpenLoopResult) =>
  sentLateP99Ms > MAX_CLIENT_LAG_MS
    ? `; the client itself was ${roundToFourDigits(sentLateP99Ms)} ms late (p99)`
    : "";

/** Returns NaN for an empty list. */
const computeGeometricMean = (rates: readonly number[]) =>
  Math.exp(rates.reduce((sum, rate) => sum + Math.log(rate), 0) / rates.length);
