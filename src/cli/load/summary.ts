// One trial's figures, from the record of its calls.

import { CONFIDENCE, mostOver } from "./confidence.ts";
import { type Distribution, distributionOf, histogramOf } from "./distribution.ts";
import { type LoadRecord, type NameColumn, OUTCOME } from "./record.ts";
import type { Percentile, Trial } from "./report-schema.ts";
import { warningsOf } from "./warnings.ts";

export interface Objective {
  readonly ms: number;
  /** 99: of 100 calls, 99 are to be answered within `ms`. */
  readonly percentile: number;
}

export interface TrialFacts {
  readonly ratePerSecond: number;
  /** The part of the schedule that counts. */
  readonly fromMs: number;
  readonly untilMs: number;
  readonly objective: Objective | undefined;
  readonly generator: { readonly connectionsOpened: number; readonly cores: number };
}

const PERCENTILES = [50, 90, 99, 99.9];
const MAX_POINTS = 60;

export function summarise(record: LoadRecord, facts: TrialFacts): Trial {
  const { fromMs, untilMs, ratePerSecond, objective, generator } = facts;
  const seconds = Math.max(0, untilMs - fromMs) / 1_000;
  const counted = (index: number) =>
    (record.dueMs[index] ?? -1) >= fromMs &&
    (record.dueMs[index] ?? untilMs) < untilMs &&
    record.outcome[index] !== OUTCOME.unsent;
  const countedWith = (outcome: number) => (index: number) =>
    counted(index) && record.outcome[index] === outcome;
  const isAnswered = countedWith(OUTCOME.answered);
  const latencies = distributionOf(
    picked(record.latencyMs, either(isAnswered, countedWith(OUTCOME.timedOut))),
  );
  const scheduled = countOf(record, counted);
  const answered = countOf(record, isAnswered);
  const degraded = countOf(record, (index) => isAnswered(index) && record.degraded[index] === 1);
  const inTime = countOf(
    record,
    (index) =>
      record.outcome[index] === OUTCOME.answered &&
      isBetween(endedAtMs(record, index), fromMs, untilMs),
  );
  const trial = {
    ratePerSecond,
    seconds: rounded(seconds),
    scheduled,
    offeredPerSecond: rounded(perSecond(scheduled, seconds)),
    achievedPerSecond: rounded(perSecond(inTime, seconds)),
    answered,
    failed: countOf(record, countedWith(OUTCOME.failed)),
    timedOut: countOf(record, countedWith(OUTCOME.timedOut)),
    unfinished: countOf(record, countedWith(OUTCOME.running)),
    latency: latencyOf(latencies, objective),
    ...(objective === undefined ? {} : { slo: verdictOn(record, counted, objective, untilMs) }),
    generator: {
      sendLagMs: spreadOf(picked(record.sendLagMs, counted)),
      connectionWaitMs: spreadOf(picked(record.connectionWaitMs, isAnswered)),
      connectionsOpened: generator.connectionsOpened,
      cores: rounded(generator.cores),
    },
    errors: record.errors
      .count(countedWith(OUTCOME.failed))
      .map(({ name, count }) => ({ code: name, count, example: record.examples.get(name) ?? "" })),
    degraded: { count: degraded, share: shareOf(degraded, answered) },
    tiers: sharesOf(record.tiers, isAnswered, answered),
    caches: sharesOf(record.caches, isAnswered, answered),
    phases: phasesOf(record, isAnswered),
    histogram: histogramOf(latencies),
    series: seriesOf(record, facts),
  };
  return { ...trial, warnings: warningsOf(trial) };
}

/** Five digits are more than such a measurement can bear. */
const rounded = (value: number): number =>
  Number.isFinite(value) ? Number(value.toPrecision(5)) : 0;
const roundedOrNull = (value: number | undefined): number | null =>
  value === undefined || Number.isNaN(value) ? null : rounded(value);
const shareOf = (count: number, all: number) => (all === 0 ? 0 : count / all);
const perSecond = (count: number, seconds: number) => (seconds === 0 ? 0 : count / seconds);
const isBetween = (value: number, from: number, until: number) => value >= from && value < until;

type Which = (index: number) => boolean;
const either =
  (one: Which, other: Which): Which =>
  (index) =>
    one(index) || other(index);
const endedAtMs = ({ dueMs, latencyMs }: LoadRecord, index: number) =>
  (dueMs[index] ?? Number.NaN) + (latencyMs[index] ?? Number.NaN);

function countOf({ calls }: LoadRecord, which: Which): number {
  let count = 0;
  for (let index = 0; index < calls; index++) if (which(index)) count++;
  return count;
}

function picked(column: Float32Array | Float64Array, which: Which): number[] {
  const values: number[] = [];
  for (const [index, value] of column.entries()) if (which(index)) values.push(value);
  return values;
}

function latencyOf(latencies: Distribution, objective: Objective | undefined): Trial["latency"] {
  const { n, values } = latencies;
  const wanted = [
    ...new Set([...PERCENTILES, ...(objective === undefined ? [] : [objective.percentile])]),
  ].toSorted((a, b) => a - b);
  const percentiles = wanted.map((percentile): Percentile => {
    const ms = latencies.at(percentile / 100);
    return {
      percentile,
      ms: rounded(ms),
      atMostMs: roundedOrNull(latencies.atMost(percentile / 100)),
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
function verdictOn(
  record: LoadRecord,
  counted: Which,
  { ms, percentile }: Objective,
  untilMs: number,
): NonNullable<Trial["slo"]> {
  const isTooOld = (index: number) =>
    record.outcome[index] === OUTCOME.running && untilMs - (record.dueMs[index] ?? untilMs) > ms;
  const isOver = (index: number) =>
    record.outcome[index] === OUTCOME.failed ||
    record.outcome[index] === OUTCOME.timedOut ||
    isTooOld(index) ||
    (record.latencyMs[index] ?? 0) > ms;
  const samples = countOf(
    record,
    (index) => counted(index) && (record.outcome[index] !== OUTCOME.running || isTooOld(index)),
  );
  const over = countOf(record, (index) => counted(index) && isOver(index));
  const most = mostOver(samples, percentile / 100);
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

function spreadOf(samples: readonly number[]): Trial["generator"]["sendLagMs"] {
  const spread = distributionOf(samples);
  return {
    p50: rounded(spread.at(0.5)),
    p99: rounded(spread.at(0.99)),
    max: rounded(spread.at(1)),
  };
}

const sharesOf = (column: NameColumn, which: Which, all: number): Trial["tiers"] =>
  column.count(which).map(({ name, count }) => ({ name, count, share: shareOf(count, all) }));

function phasesOf({ phasesMs }: LoadRecord, which: Which): Trial["phases"] {
  return [...phasesMs].flatMap(([phase, column]) => {
    const told = distributionOf(
      picked(column, (index) => which(index) && !Number.isNaN(column[index])),
    );
    return told.n === 0
      ? []
      : [{ phase, samples: told.n, p50Ms: rounded(told.at(0.5)), p99Ms: rounded(told.at(0.99)) }];
  });
}

/** Calls by when they were due; answers and failures by when they came. */
function seriesOf(record: LoadRecord, { fromMs, untilMs }: TrialFacts): Trial["series"] {
  const stepMs = niceStepMs((untilMs - fromMs) / MAX_POINTS);
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
    if (outcome === OUTCOME.unsent) continue;
    const due = binAt(record.dueMs[index] ?? -1);
    const end = outcome === OUTCOME.running ? undefined : binAt(endedAtMs(record, index));
    if (due !== undefined) due.offered++;
    if (end !== undefined) end[outcome === OUTCOME.answered ? "answered" : "failed"]++;
    if (outcome === OUTCOME.answered || outcome === OUTCOME.timedOut)
      due?.latenciesMs.push(record.latencyMs[index] ?? 0);
  }
  const points = bins.map(({ latenciesMs, ...counts }, bin) => {
    const latencies = distributionOf(latenciesMs);
    return {
      atSeconds: rounded((bin * stepMs) / 1_000),
      ...counts,
      p50Ms: roundedOrNull(latencies.at(0.5)),
      p99Ms: roundedOrNull(latencies.at(0.99)),
    };
  });
  return { stepSeconds: stepMs / 1_000, points };
}

/** 100 ms, 200, 500, a second and so on: the first that is no shorter. */
function niceStepMs(leastMs: number): number {
  for (let decadeMs = 100; ; decadeMs *= 10) {
    const step = [1, 2, 5].map((factor) => factor * decadeMs).find((one) => one >= leastMs);
    if (step !== undefined) return step;
  }
}
