// A load test: one trial after the other, at given rates or in search of the highest that holds the objective.

import { cliErrors } from "../errors.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { reasonOf } from "../../core/errors.ts";
import { type Arrivals, scheduleArrivalsMs } from "./arrivals.ts";
import { minSamples } from "./percentile-bound.ts";
import type { Call, Sender } from "./http-sender.ts";
import { closedLoop, openLoop, type OpenLoopOptions } from "./open-loop.ts";
import { formatRate, startProgress } from "./progress.ts";
import { createRandom, type Random } from "./random.ts";
import { createRateSearch } from "./rate-search.ts";
import { parseReply, parseReplyError } from "./parse-reply.ts";
import { LoadRecord } from "./load-record.ts";
import type { Trial } from "./report-schema.ts";
import { type Objective, summarizeTrial } from "./summarize-trial.ts";

export interface LoadPlan {
  readonly arrivals: Arrivals;
  readonly seed: number;
  /** What is measured, of each trial, after what is not. */
  readonly durationMs: number;
  readonly warmUpMs: number;
  readonly timeoutMs: number;
  readonly connections: number;
  readonly objective: Objective | undefined;
  /** One trial each; or the highest that holds the objective, beginning near `startRate`. */
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
  /** What stays on the screen. */
  readonly log: (line: string) => void;
  /** How it goes: in place of what was shown before. */
  readonly showProgress: (line: string) => void;
  readonly progressIntervalMs: number;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  readonly loop?: Pick<OpenLoopOptions, "pace" | "nowMs">;
}

export interface LoadResult {
  readonly trials: readonly Trial[];
  /** Of a search; null where none held. */
  readonly highestRatePerSecond?: number | null;
}

/** More would not fit into memory. */
export const MAX_CALLS = 5_000_000;
const SEARCH_RESOLUTION = 1.05;
/** Where a search begins: shares of what callers get who wait for their answers; or factors of what it was told. */
const [FIRST_LOW, FIRST_HIGH, NEAR_HIGH] = [0.6, 1.05, 1.4];
const [CAPACITY_CALLERS, CAPACITY_SECONDS] = [64, 2];
/** Of the samples that show a percentile with none over: one may be over (1.44), and fewer may come than are due. */
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
  const { signal, log: tell } = tools;
  const { low, high } =
    startRate === undefined
      ? await measureSearchRange(tools, plan, random)
      : { low: startRate, high: startRate * NEAR_HIGH };
  const search = createRateSearch({ low, high, resolution: SEARCH_RESOLUTION });
  const samples = SAMPLES_MARGIN * minSamples(objective.percentile / 100);
  while (search.nextRate !== undefined && !signal.aborted) {
    const rate = search.nextRate;
    const { slo } = await measure(rate, Math.max(plan.durationMs, (1_000 * samples) / rate));
    if (signal.aborted) break; // half a trial says nothing about its rate
    const holds = slo?.verdict === "held";
    tell(
      `${formatRate(rate)}/s ${holds ? "hold" : "do not hold"} a p${objective.percentile} of ${objective.ms} ms: ${slo?.over} of ${slo?.samples} over`,
    );
    search.record(holds);
  }
  return search.highestRate ?? null;
}

/** @throws what the server refuses a call with */
async function measureSearchRange(
  { send, calls, signal, log: tell }: LoadDependencies,
  { connections, timeoutMs }: LoadPlan,
  random: Random,
): Promise<{ readonly low: number; readonly high: number }> {
  const callers = Math.min(CAPACITY_CALLERS, connections);
  tell(
    `${callers} callers that wait for their answers, for ${CAPACITY_SECONDS} s, to find where to begin`,
  );
  const remedy = `${callers} callers at once are too many for it: say with --rate where to begin.`;
  const call = async () => {
    const reply = await send(random.pick(calls), { timeoutMs }).catch((error: unknown) => {
      if (signal.aborted) return undefined;
      throw cliErrors.edgeRefused(
        "no_answer",
        504,
        `A call was not answered: ${reasonOf(error)}.`,
        remedy,
      );
    });
    const refusal = reply && parseReplyError(reply);
    if (refusal !== undefined)
      throw cliErrors.edgeRefused(
        refusal.code ?? "edge_refused",
        reply?.status ?? 0,
        refusal.detail,
        remedy,
      );
  };
  const capacity = await closedLoop(call, {
    concurrency: callers,
    durationSeconds: CAPACITY_SECONDS,
    signal,
  });
  return { low: capacity * FIRST_LOW, high: capacity * FIRST_HIGH };
}

async function runTrial(
  ratePerSecond: number,
  plan: LoadPlan,
  {
    send,
    calls,
    showProgress: show,
    progressIntervalMs: showEveryMs,
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
    { show, intervalMs: showEveryMs, clock, ratePerSecond, totalMs },
    record,
  );
  const [cpuBefore, openedBefore] = [process.threadCpuUsage(), send.openedConnections()];
  const tookMs = await openLoop(
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
    untilMs: signal.aborted ? Math.min(Math.max(tookMs, warmUpMs), totalMs) : totalMs,
    objective,
    generator: {
      connectionsOpened: send.openedConnections() - openedBefore,
      cores: tookMs === 0 ? 0 : (user + system) / 1_000 / tookMs,
    },
  });
}
