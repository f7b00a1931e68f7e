// A load report for a terminal.

import { renderTable } from "../output.ts";
import { formatMs, formatRate } from "./progress.ts";
import type { LoadReport, Percentile, Trial } from "./report-schema.ts";

export function renderReportText(report: LoadReport): string {
  const { trials } = report;
  const [only] = trials;
  const body =
    trials.length === 1 && only !== undefined
      ? renderTrialDetails(only)
      : [renderTrialsTable(trials), ...trials.flatMap(warningLines)];
  return [describeLoad(report), ...body, ...renderEnding(report)].join("\n\n");
}

/** What was asked of whom, and how. */
export function describeLoad({
  url,
  model,
  protocol,
  inputs,
  cache,
  arrivals,
  seed,
  connections,
  timeoutMs,
  warmUpSeconds,
}: LoadReport): string {
  const asked = `${model} at ${url}, by ${protocol}: ${inputs.count} inputs (${inputs.source}), cache: ${cache}`;
  return `${asked}\n${arrivals} arrivals, seed ${seed}; at most ${connections} connections; given up after ${timeoutMs} ms; a warm-up of ${warmUpSeconds} s before each rate is not counted`;
}

const percentileOf = ({ latency }: Trial, wanted: number): Percentile | undefined =>
  latency.percentiles.find(({ percentile }) => percentile === wanted);
const formatMsOrDash = (ms: number | null | undefined) =>
  ms === null || ms === undefined ? "-" : formatMs(ms);
export const formatPercent = (share: number): string =>
  `${(100 * share).toFixed(share > 0 && share < 0.01 ? 2 : 1)} %`;

export const TRIAL_HEADERS = [
  "Offered/s",
  "Answered/s",
  "Calls",
  "Failed",
  "Timed out",
  "p50",
  "p90",
  "p99",
  "p99 at most",
  "p99.9",
  "Max",
  "Over",
  "Objective",
];

export function trialCells(trial: Trial): string[] {
  const { offeredPerSecond, achievedPerSecond, scheduled, failed, timedOut, latency, slo } = trial;
  const ms = (percentile: number) => formatMsOrDash(percentileOf(trial, percentile)?.ms);
  const counts = [scheduled, failed, timedOut].map(String);
  return [
    formatRate(offeredPerSecond),
    formatRate(achievedPerSecond),
    ...counts,
    ms(50),
    ms(90),
    ms(99),
    formatMsOrDash(percentileOf(trial, 99)?.atMostMs),
    ms(99.9),
    formatMsOrDash(latency.maxMs),
    slo === undefined ? "-" : String(slo.over),
    slo?.verdict ?? "-",
  ];
}

const renderTrialsTable = (trials: readonly Trial[]) =>
  renderTable([TRIAL_HEADERS.map((head) => head.toUpperCase()), ...trials.map(trialCells)]);

function renderTrialDetails(trial: Trial): string[] {
  const {
    offeredPerSecond,
    achievedPerSecond,
    seconds,
    scheduled,
    answered,
    failed,
    timedOut,
    unfinished,
    generator,
    latency,
    degraded,
    errors,
  } = trial;
  const rates = [
    ["offered", `${formatRate(offeredPerSecond)}/s`, `${scheduled} calls in ${seconds} s`],
    [
      "answered",
      `${formatRate(achievedPerSecond)}/s`,
      `${answered} answered, ${failed} failed, ${timedOut} timed out${unfinished === 0 ? "" : `, ${unfinished} not ended`}`,
    ],
  ];
  const lag = [
    [
      "sent late",
      `p50 ${formatMs(generator.sendLagMs.p50)}, p99 ${formatMs(generator.sendLagMs.p99)}, max ${formatMs(generator.sendLagMs.max)}`,
      `${generator.cores.toFixed(2)} cores taken, ${generator.connectionsOpened} connections opened`,
    ],
  ];
  const percentiles = latency.percentiles.map(({ percentile, ms, atMostMs, samplesAbove }) => [
    `p${percentile}`,
    formatMs(ms),
    formatMsOrDash(atMostMs),
    samplesAbove,
  ]);
  return [
    renderTable([...rates, ...lag]),
    renderTable([
      ["LATENCY", "", "AT MOST (99 % SURE)", "SAMPLES ABOVE"],
      ...percentiles,
      ["max", formatMsOrDash(latency.maxMs)],
    ]),
    ...(trial.slo === undefined ? [] : [formatVerdict(trial.slo)]),
    ...(errors.length === 0
      ? []
      : [
          renderTable([
            ["ERROR", "CALLS", "FOR EXAMPLE"],
            ...errors.map(({ code, count, example }) => [code, count, example]),
          ]),
        ]),
    ...named("TIER", trial.tiers),
    ...named("CACHE", trial.caches),
    ...(degraded.count === 0
      ? []
      : [`degraded: ${degraded.count} (${formatPercent(degraded.share)})`]),
    ...(trial.phases.length === 0
      ? []
      : [
          renderTable([
            ["SERVER PHASE", "P50", "P99", "ANSWERS THAT TELL IT"],
            ...trial.phases.map(({ phase, p50Ms, p99Ms, samples }) => [
              phase,
              formatMs(p50Ms),
              formatMs(p99Ms),
              samples,
            ]),
          ]),
        ]),
    ...warningLines(trial),
  ];
}

const named = (head: string, rows: Trial["tiers"]): string[] =>
  rows.length === 0
    ? []
    : [
        renderTable([
          [head, "ANSWERS", "SHARE"],
          ...rows.map(({ name, count, share }) => [name, count, formatPercent(share)]),
        ]),
      ];

export function formatVerdict({
  ms,
  percentile,
  confidence,
  samples,
  over,
  mostOver,
  verdict,
}: NonNullable<Trial["slo"]>): string {
  const allowed =
    mostOver === null
      ? "too few samples to show it even with none"
      : `${mostOver} may be, to show it with ${formatPercent(confidence)} confidence`;
  return `objective: p${percentile} within ${ms} ms: ${verdict} (${over} of ${samples} calls were over it or failed; ${allowed})`;
}

const warningLines = ({ warnings, ratePerSecond }: Trial): string[] =>
  warnings.length === 0
    ? []
    : [
        `at ${formatRate(ratePerSecond)}/s:\n${warnings.map((warning) => `! ${warning}`).join("\n")}`,
      ];

function renderEnding({ highestRatePerSecond, isInterrupted }: LoadReport): string[] {
  const found =
    highestRatePerSecond === undefined
      ? []
      : [
          highestRatePerSecond === null
            ? "No rate held the objective."
            : `highest rate that holds the objective: ${formatRate(highestRatePerSecond)}/s`,
        ];
  return [
    ...found,
    ...(isInterrupted ? ["Stopped before its end: what was measured until then."] : []),
  ];
}
