// One trial's figures, from the record of its calls.

import { CONFIDENCE, maxViolations } from "./percentile-bound.ts";
import { type Distribution, createDistribution, computeHistogram } from "./distribution.ts";
import { type LoadRecord, type NameColumn, CALL_OUTCOMES } from "./load-record.ts";
import type { Percentile, Trial } from "./report-schema.ts";
import { findWarnings } from "./warnings.ts";

export interface Objective {
  readonly ms: number;
  /** 99: of 100 calls, 99 are to be answered within `ms`. */
  readonly percentile: number;
}

export interface TrialContext {
  readonly ratePerSecond: number;
  /** The part of the schedule that counts. */
  readonly fromMs: number;
  readonly untilMs: number;
  readonly objective: Objective | undefined;
  readonly generator: { readonly connectionsOpened: number; readonly cores: number };
}

const PERCENTILES = [50, 90, 99, 99.9];
const MAX_SERIES_POINTS = 60;

export function summarizeTrial(record: LoadRecord, facts: TrialContext): Trial {
  const { fromMs, untilMs, ratePerSecond, objective, generator } = facts;
  const seconds = Math.max(0, untilMs - fromMs) / 1_000;
  const counted = (index: number) =>
    (record.dueMs[index] ?? -1) >= fromMs &&
    (record.dueMs[index] ?? untilMs) < untilMs &&
    record.outcome[index] !== CALL_OUTCOMES.unsent;
  const countedWith = (outcome: number) => (index: number) =>
    counted(index) && record.outcome[index] === outcome;
  const isAnswered = countedWith(CALL_OUTCOMES.answered);
  const latencies = createDistribution(
    selectValues(record.latencyMs, anyOf(isAnswered, countedWith(CALL_OUTCOMES.timedOut))),
  );
  const scheduled = countCalls(record, counted);
  const answered = countCalls(record, isAnswered);
  const degraded = countCalls(record, (index) => isAnswered(index) && record.degraded[index] === 1);
  const inTime = countCalls(
    record,
    (index) =>
      record.outcome[index] === CALL_OUTCOMES.answered &&
      isBetween(endedAtMs(record, index), fromMs, untilMs),
  );
  const trial = {
    ratePerSecond,
    seconds: rounded(seconds),
    scheduled,
    offeredPerSecond: rounded(perSecond(scheduled, seconds)),
    achievedPerSecond: rounded(perSecond(inTime, seconds)),
    answered,
    failed: countCalls(record, countedWith(CALL_OUTCOMES.failed)),
    timedOut: countCalls(record, countedWith(CALL_OUTCOMES.timedOut)),
    unfinished: countCalls(record, countedWith(CALL_OUTCOMES.inFlight)),
    latency: computeLatency(latencies, objective),
    ...(objective === undefined
      ? {}
      : { slo: computeVerdict(record, counted, objective, untilMs) }),
    generator: {
      sendLagMs: computeSpread(selectValues(record.sendLagMs, counted)),
      connectionWaitMs: computeSpread(selectValues(record.connectionWaitMs, isAnswered)),
      connectionsOpened: generator.connectionsOpened,
      cores: rounded(generator.cores),
    },
    errors: record.errors
      .count(countedWith(CALL_OUTCOMES.failed))
      .map(({ name, count }) => ({ code: name, count, example: record.examples.get(name) ?? "" })),
    degraded: { count: degraded, share: shareOf(degraded, answered) },
    tiers: computeShares(record.tiers, isAnswered, answered),
    caches: computeShares(record.caches, isAnswered, answered),
    phases: computePhases(record, isAnswered),
    histogram: computeHistogram(latencies),
    series: computeSeries(record, facts),
  };
  return { ...trial, warnings: findWarnings(trial) };
}

/** Five digits are more than such a measurement can bear. */
const rounded = (value: number): number =>
  Number.isFinite(value) ? Number(value.toPrecision(5)) : 0;
const roundedOrNull = (value: number | undefined): number | null =>
  value === undefined || Number.isNaN(value) ? null : rounded(value);
const shareOf = (count: number, all: number) => (all === 0 ? 0 : count / all);
const perSecond = (count: number, seconds: number) => (seconds === 0 ? 0 : count / seconds);
const isBetween = (value: number, from: number, until: number) => value >= from && value < until;

type CallFilter = (index: number) => boolean;
const anyOf =
  (one: CallFilter, other: CallFilter): CallFilter =>
  (index) =>
    one(index) || other(index);
const endedAtMs = ({ dueMs, latencyMs }: LoadRecord, index: number) =>
  (dueMs[index] ?? Number.NaN) + (latencyMs[index] ?? Number.NaN);

function countCalls({ calls }: LoadRecord, which: CallFilter): number {
  let count = 0;
  for (let index = 0; index < calls; index++) if (which(index)) count++;
  return count;
}

function selectValues(column: Float32Array | Float64Array, which: CallFilter): number[] {
  const values: number[] = [];
  for (const [index, value] of column.entries()) if (which(index)) values.push(value);
  return values;
}

function computeLatency(
  latencies: Distribution,
  objective: Objective | undefined,
): Trial["latency"] {
  const { count: n, values } = latencies;
  const wanted = [
    ...new Set([...PERCENTILES, ...(objective === undefined ? [] : [objective.percentile])]),
  ].toSorted((a, b) => a - b);
  const percentiles = wanted.map((percentile): Percentile => {
    const ms = latencies.quantile(percentile / 100);
    return {
      percentile,
      ms: rounded(ms),
      atMostMs: roundedOrNull(latencies.quantileUpperBound(percentile / 100)),
      samplesAbove: latencies.countAbove(ms),
    };
  });
  const mean = values.reduce((sum, value) => sum + value, 0) / n;
  return {
    samples: n,
    minMs: roundedOrNull(values[0]),
    meanMs: roundedOrNull(mean),
    maxMs: roundedOrNull(values.at(-1)),
    percentiles: n === 0 ? [] : percentiles,
  };
}

/** What failed or was given up is over any bound; so is what had been running for longer when the load was stopped. */
function computeVerdict(
  record: LoadRecord,
  counted: CallFilter,
  { ms, percentile }: Objective,
  untilMs: number,
): NonNullable<Trial["slo"]> {
  const isTooOld = (index: number) =>
    record.outcome[index] === CALL_OUTCOMES.inFlight &&
    untilMs - (record.dueMs[index] ?? untilMs) > ms;
  const isOver = (index: number) =>
    record.outcome[index] === CALL_OUTCOMES.failed ||
    record.outcome[index] === CALL_OUTCOMES.timedOut ||
    isTooOld(index) ||
    (record.latencyMs[index] ?? 0) > ms;
  const samples = countCalls(
    record,
    (index) =>
      counted(index) && (record.outcome[index] !== CALL_OUTCOMES.inFlight || isTooOld(index)),
  );
  const over = countCalls(record, (index) => counted(index) && isOver(index));
  const most = maxViolations(samples, percentile / 100);
  const isMissed = samples === 0 || over > samples * (1 - percentile / 100);
  return {
    ms,
    percentile,
    confidence: CONFIDENCE,
    samples,
    over,
    mostOver: most ?? null,
    verdict: most !== undefined && over <= most ? "held" : isMissed ? "missed" : "not shown",
  };
}

function computeSpread(samples: readonly number[]): Trial["generator"]["sendLagMs"] {
  const spread = createDistribution(samples);
  return {
    p50: rounded(spread.quantile(0.5)),
    p99: rounded(spread.quantile(0.99)),
    max: rounded(spread.quantile(1)),
  };
}

const computeShares = (column: NameColumn, which: CallFilter, all: number): Trial["tiers"] =>
  column.count(which).map(({ name, count }) => ({ name, count, share: shareOf(count, all) }));

function computePhases({ phasesMs }: LoadRecord, which: CallFilter): Trial["phases"] {
  return [...phasesMs].flatMap(([phase, column]) => {
    const told = createDistribution(
      selectValues(column, (index) => which(index) && !Number.isNaN(column[index])),
    );
    return told.count === 0
      ? []
      : [
          {
            phase,
            samples: told.count,
            p50Ms: rounded(told.quantile(0.5)),
            p99Ms: rounded(told.quantile(0.99)),
          },
        ];
  });
}

/** Calls by when they were due; answers and failures by when they came. */
function computeSeries(record: LoadRecord, { fromMs, untilMs }: TrialContext): Trial["series"] {
  const stepMs = chooseStepMs((untilMs - fromMs) / MAX_SERIES_POINTS);
  const bins = Array.from({ length: Math.max(0, Math.ceil((untilMs - fromMs) / stepMs)) }, () => ({
    offered: 0,
    answered: 0,
    failed: 0,
    latenciesMs: [] as number[],
  }));
  const binAt = (atMs: number) =>
    isBetween(atMs, fromMs, untilMs) ? bins[Math.floor((atMs - fromMs) / stepMs)] : undefined;
  for (let index = 0; index < record.calls; index++) {
    const outcome = record.outcome[index];
    if (outcome === CALL_OUTCOMES.unsent) continue;
    const due = binAt(record.dueMs[index] ?? -1);
    const end = outcome === CALL_OUTCOMES.inFlight ? undefined : binAt(endedAtMs(record, index));
    if (due !== undefined) due.offered++;
    if (end !== undefined) end[outcome === CALL_OUTCOMES.answered ? "answered" : "failed"]++;
    if (outcome === CALL_OUTCOMES.answered || outcome === CALL_OUTCOMES.timedOut)
      due?.latenciesMs.push(record.latencyMs[index] ?? 0);
  }
  const points = bins.map(({ latenciesMs, ...counts }, bin) => {
    const latencies = createDistribution(latenciesMs);
    return {
      atSeconds: rounded((bin * stepMs) / 1_000),
      ...counts,
      p50Ms: roundedOrNull(latencies.quantile(0.5)),
      p99Ms: roundedOrNull(latencies.quantile(0.99)),
    };
  });
  return { stepSeconds: stepMs / 1_000, points };
}

/** 100 ms, 200, 500, a second and so on: the first that is no shorter. */
function chooseStepMs(leastMs: number): number {
  for (let decadeMs = 100; ; decadeMs *= 10) {
    const step = [1, 2, 5].map((factor) => factor * decadeMs).find((one) => one >= leastMs);
    if (step !== undefined) return step;
  }
}
