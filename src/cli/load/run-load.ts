// Load test: runs trials at given rates, or searches the highest rate that meets the objective.

import { type Clock, systemClock } from "../../core/clock.ts";
import { reasonOf } from "../../core/errors.ts";
import { cliErrors } from "../errors.ts";
import { type Arrivals, scheduleArrivalsMs } from "./arrivals.ts";
import type { Call, Sender } from "./http-sender.ts";
import { LoadRecord } from "./load-record.ts";
import { closedLoop, openLoop, type OpenLoopOptions } from "./open-loop.ts";
import { parseReply, parseReplyError } from "./parse-reply.ts";
import { minSamples } from "./percentile-bound.ts";
import { formatRate, startProgress } from "./progress.ts";
import { createRandom, type Random } from "./random.ts";
import { createRateSearch } from "./rate-search.ts";
import type { Trial } from "./report-schema.ts";
import { type Objective, summarizeTrial } from "./summarize-trial.ts";

export interface LoadPlan {
  readonly arrivals: Arrivals;
  readonly seed: number;
  /** Measured duration of each trial, after the warm-up. */
  readonly durationMs: number;
  /** Duration at the same rate that does not count. */
  readonly warmUpMs: number;
  readonly timeoutMs: number;
  readonly connections: number;
  readonly objective: Objective | undefined;
  /** One trial per fixed rate, or a search from `startRate` for the highest rate that meets the objective. */
  readonly rates:
    | { readonly kind: "fixed"; readonly ratesPerSecond: readonly number[] }
    | {
        readonly kind: "search";
        readonly startRate: number | undefined;
        readonly objective: Objective;
      };
}

export interface LoadDependencies {
  readonly send: Sender;
  readonly calls: readonly Call[];
  /** Prints a permanent line. */
  readonly log: (line: string) => void;
  /** Shows a progress line that replaces the previous one. */
  readonly showProgress: (line: string) => void;
  readonly progressIntervalMs: number;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  readonly loop?: Pick<OpenLoopOptions, "pace" | "nowMs">;
}

export interface LoadResult {
  readonly trials: readonly Trial[];
  /** Result of a search. Null if no rate met the objective. */
  readonly highestRatePerSecond?: number | null;
}

/** Memory limits the number of recorded calls. */
export const MAX_CALLS = 5_000_000;
const SEARCH_RESOLUTION = 1.05;
/** Initial range of a search: shares of the closed loop's rate; or `startRate` and its multiple. */
const [LOW_SHARE, HIGH_SHARE, START_RATE_FACTOR] = [0.6, 1.05, 1.4];
const [CAPACITY_CALLERS, CAPACITY_SECONDS] = [64, 2];
/** Factor on the samples that show a percentile without violations. One violation takes 1.44, and calls may be lost. */
const SAMPLES_MARGIN = 1.75;

export async function runLoad(plan: LoadPlan, tools: LoadDependencies): Promise<LoadResult> {
  const random = createRandom(plan.seed);
  const trials: Trial[] = [];
  const measure = async (rate: number, durationMs: number): Promise<Trial> => {
    const trial = await runTrial(rate, { ...plan, durationMs }, tools, random);
    trials.push(trial);
    return trial;
  };
  if (plan.rates.kind === "search")
    return {
      highestRatePerSecond: await findHighestRate(plan, plan.rates, tools, measure, random),
      trials,
    };
  for (const rate of plan.rates.ratesPerSecond) {
    if (tools.signal.aborted) break;
    await measure(rate, plan.durationMs);
  }
  return { trials };
}

async function findHighestRate(
  plan: LoadPlan,
  { startRate, objective }: Extract<LoadPlan["rates"], { readonly kind: "search" }>,
  tools: LoadDependencies,
  measure: (rate: number, durationMs: number) => Promise<Trial>,
  random: Random,
): Promise<number | null> {
  const { signal, log } = tools;
  const { low, high } =
    startRate === undefined
      ? await measureSearchRange(tools, plan, random)
      : { low: startRate, high: startRate * START_RATE_FACTOR };
  const search = createRateSearch({ low, high, resolution: SEARCH_RESOLUTION });
  const samples = SAMPLES_MARGIN * minSamples(objective.percentile / 100);
  while (search.nextRate !== undefined && !signal.aborted) {
    const rate = search.nextRate;
    const { slo } = await measure(rate, Math.max(plan.durationMs, (1_000 * samples) / rate));
    if (signal.aborted) break; // an incomplete trial shows nothing about its rate
    const holds = slo?.verdict === "held";
    log(
      `${formatRate(rate)}/s ${holds ? "meets" : "does not meet"} a p${objective.percentile} of ${objective.ms} ms: ${slo?.over} violations in ${slo?.samples} calls`,
    );
    search.record(holds);
  }
  return search.highestRate ?? null;
}

/** Estimates the capacity with a closed loop. @throws the server's error if it rejects a call */
async function measureSearchRange(
  { send, calls, signal, log }: LoadDependencies,
  { connections, timeoutMs }: LoadPlan,
  random: Random,
): Promise<{ readonly low: number; readonly high: number }> {
  const callers = Math.min(CAPACITY_CALLERS, connections);
  log(`estimating the capacity with ${callers} concurrent callers for ${CAPACITY_SECONDS} s`);
  const remedy = `${callers} concurrent callers overload the server. Pass --rate to set the start of the search.`;
  const call = async () => {
    const reply = await send(random.pick(calls), { timeoutMs }).catch((error: unknown) => {
      if (signal.aborted) return undefined;
      throw cliErrors.edgeRefused(
        "no_answer",
        504,
        `The server did not respond to a call: ${reasonOf(error)}.`,
        remedy,
      );
    });
    const replyError = reply && parseReplyError(reply);
    if (replyError !== undefined)
      throw cliErrors.edgeRefused(
        replyError.code ?? "edge_refused",
        reply?.status ?? 0,
        replyError.detail,
        remedy,
      );
  };
  const capacity = await closedLoop(call, {
    concurrency: callers,
    durationSeconds: CAPACITY_SECONDS,
    signal,
  });
  return { low: capacity * LOW_SHARE, high: capacity * HIGH_SHARE };
}

async function runTrial(
  ratePerSecond: number,
  plan: LoadPlan,
  {
    send,
    calls,
    showProgress,
    progressIntervalMs,
    signal,
    clock = systemClock,
    loop = {},
  }: LoadDependencies,
  random: Random,
): Promise<Trial> {
  const { arrivals, warmUpMs, durationMs, timeoutMs, objective } = plan;
  const totalMs = warmUpMs + durationMs;
  const dueMs = scheduleArrivalsMs(arrivals, ratePerSecond, totalMs, random);
  const record = new LoadRecord(dueMs, parseReply);
  const progress = startProgress(
    { show: showProgress, intervalMs: progressIntervalMs, clock, ratePerSecond, totalMs },
    record,
  );
  const [cpuBefore, openedBefore] = [process.threadCpuUsage(), send.openedConnections()];
  const elapsedMs = await openLoop(
    dueMs,
    async () => await send(random.pick(calls), { timeoutMs }),
    progress,
    { ...loop, signal },
  );
  progress.stop();
  const { user, system } = process.threadCpuUsage(cpuBefore);
  return summarizeTrial(record, {
    ratePerSecond,
    fromMs: warmUpMs,
    untilMs: signal.aborted ? Math.min(Math.max(elapsedMs, warmUpMs), totalMs) : totalMs,
    objective,
    generator: {
      connectionsOpened: send.openedConnections() - openedBefore,
      cores: elapsedMs === 0 ? 0 : (user + system) / 1_000 / elapsedMs,
    },
  });
}
