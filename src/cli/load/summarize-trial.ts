// Trial summary: computes one trial's figures from the record of its calls.

import { type Distribution, createDistribution, computeHistogram } from "./distribution.ts";
import { type LoadRecord, type NameColumn, CALL_OUTCOMES } from "./load-record.ts";
import { CONFIDENCE, maxViolations } from "./percentile-bound.ts";
import type { Percentile, Trial } from "./report-schema.ts";
import { findWarnings } from "./warnings.ts";

export interface Objective {
  readonly ms: number;
  /** Percentage of calls that must be answered within `ms`. */
  readonly percentile: number;
}

export interface TrialContext {
  readonly ratePerSecond: number;
  /** Start of the measured part of the schedule. */
  readonly fromMs: number;
  readonly untilMs: number;
  readonly objective: Objective | undefined;
  readonly generator: { readonly connectionsOpened: number; readonly cores: number };
}

const PERCENTILES = [50, 90, 99, 99.9];
const MAX_SERIES_POINTS = 60;

export function summarizeTrial(record: LoadRecord, context: TrialContext): Trial {
  const { fromMs, untilMs, ratePerSecond, objective, generator } = context;
  const seconds = Math.max(0, untilMs - fromMs) / 1_000;
  const isCounted = (index: number) =>
    (record.dueMs[index] ?? -1) >= fromMs &&
    (record.dueMs[index] ?? untilMs) < untilMs &&
    record.outcome[index] !== CALL_OUTCOMES.unsent;
  const countedWith = (outcome: number) => (index: number) =>
    isCounted(index) && record.outcome[index] === outcome;
  const isAnswered = countedWith(CALL_OUTCOMES.answered);
  const latencies = createDistribution(
    selectValues(record.latencyMs, anyOf(isAnswered, countedWith(CALL_OUTCOMES.timedOut))),
  );
  const scheduled = countCalls(record, isCounted);
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
      : { slo: computeVerdict(record, isCounted, objective, untilMs) }),
    generator: {
      sendLagMs: computeSpread(selectValues(record.sendLagMs, isCounted)),
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
    series: computeSeries(record, context),
  };
  return { ...trial, warnings: findWarnings(trial) };
}

/** Rounds to five digits, which exceeds the precision of the measurement. */
const rounded = (value: number): number =>
  Number.isFinite(value) ? Number(value.toPrecision(5)) : 0;
const roundedOrNull = (value: number | undefined): number | null =>
  value === undefined || Number.isNaN(value) ? null : rounded(value);
const shareOf = (count: number, all: number) => (all === 0 ? 0 : count / all);
const perSecond = (count: number, seconds: number) => (seconds === 0 ? 0 : count / seconds);
const isBetween = (value: number, from: number, until: number) => value >= from && value < until;

type CallFilter = (index: number) => boolean;
const anyOf =
  (first: CallFilter, second: CallFilter): CallFilter =>
  (index) =>
    first(index) || second(index);
const endedAtMs = ({ dueMs, latencyMs }: LoadRecord, index: number) =>
  (dueMs[index] ?? Number.NaN) + (latencyMs[index] ?? Number.NaN);

function countCalls({ calls }: LoadRecord, filter: CallFilter): number {
  let count = 0;
  for (let index = 0; index < calls; index++) if (filter(index)) count++;
  return count;
}

function selectValues(column: Float32Array | Float64Array, filter: CallFilter): number[] {
  const values: number[] = [];
  for (const [index, value] of column.entries()) if (filter(index)) values.push(value);
  return values;
}

function computeLatency(
  latencies: Distribution,
  objective: Objective | undefined,
): Trial["latency"] {
  const { count, values } = latencies;
  const shownPercentiles = [
    ...new Set([...PERCENTILES, ...(objective === undefined ? [] : [objective.percentile])]),
  ].toSorted((a, b) => a - b);
  const percentiles = shownPercentiles.map((percentile): Percentile => {
    const ms = latencies.quantile(percentile / 100);
    return {
      percentile,
      ms: rounded(ms),
      atMostMs: roundedOrNull(latencies.quantileUpperBound(percentile / 100)),
      samplesAbove: latencies.countAbove(ms),
    };
  });
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  return {
    samples: count,
    minMs: roundedOrNull(values[0]),
    meanMs: roundedOrNull(mean),
    maxMs: roundedOrNull(values.at(-1)),
    percentiles: count === 0 ? [] : percentiles,
  };
}

/** Compares the calls with the objective. Failures and timeouts violate it, and so do calls in flight for longer at the stop. */
function computeVerdict(
  record: LoadRecord,
  isCounted: CallFilter,
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
      isCounted(index) && (record.outcome[index] !== CALL_OUTCOMES.inFlight || isTooOld(index)),
  );
  const over = countCalls(record, (index) => isCounted(index) && isOver(index));
  const maxOver = maxViolations(samples, percentile / 100);
  const isMissed = samples === 0 || over > samples * (1 - percentile / 100);
  return {
    ms,
    percentile,
    confidence: CONFIDENCE,
    samples,
    over,
    mostOver: maxOver ?? null,
    verdict: maxOver !== undefined && over <= maxOver ? "held" : isMissed ? "missed" : "not shown",
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

const computeShares = (column: NameColumn, filter: CallFilter, all: number): Trial["tiers"] =>
  column.count(filter).map(({ name, count }) => ({ name, count, share: shareOf(count, all) }));

function computePhases({ phasesMs }: LoadRecord, filter: CallFilter): Trial["phases"] {
  return [...phasesMs].flatMap(([phase, column]) => {
    const durations = createDistribution(
      selectValues(column, (index) => filter(index) && !Number.isNaN(column[index])),
    );
    return durations.count === 0
      ? []
      : [
          {
            phase,
            samples: durations.count,
            p50Ms: rounded(durations.quantile(0.5)),
            p99Ms: rounded(durations.quantile(0.99)),
          },
        ];
  });
}

/** Computes figures by interval: offered calls by due time, answers and failures by end time. */
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

/** Chooses the shortest of 100 ms, 200 ms, 500 ms, 1 s and so on that is at least `minMs`. */
function chooseStepMs(minMs: number): number {
  for (let decadeMs = 100; ; decadeMs *= 10) {
    const step = [1, 2, 5]
      .map((factor) => factor * decadeMs)
      .find((candidate) => candidate >= minMs);
    if (step !== undefined) return step;
  }
}
