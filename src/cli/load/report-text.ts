// Text report: renders a load report for the terminal.

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

/** Describes the target and the settings of the load. */
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
  const target = `${model} at ${url}, protocol ${protocol}: ${inputs.count} inputs (${inputs.source}), cache: ${cache}`;
  return `${target}\n${arrivals} arrivals, seed ${seed}; at most ${connections} connections; timeout ${timeoutMs} ms; warm-up ${warmUpSeconds} s before each rate (not counted)`;
}

const findPercentile = ({ latency }: Trial, percentile: number): Percentile | undefined =>
  latency.percentiles.find((entry) => entry.percentile === percentile);
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
  "p99 bound",
  "p99.9",
  "Max",
  "Over",
  "Objective",
];

export function trialCells(trial: Trial): string[] {
  const { offeredPerSecond, achievedPerSecond, scheduled, failed, timedOut, latency, slo } = trial;
  const ms = (percentile: number) => formatMsOrDash(findPercentile(trial, percentile)?.ms);
  const counts = [scheduled, failed, timedOut].map(String);
  return [
    formatRate(offeredPerSecond),
    formatRate(achievedPerSecond),
    ...counts,
    ms(50),
    ms(90),
    ms(99),
    formatMsOrDash(findPercentile(trial, 99)?.atMostMs),
    ms(99.9),
    formatMsOrDash(latency.maxMs),
    slo === undefined ? "-" : String(slo.over),
    slo?.verdict ?? "-",
  ];
}

const renderTrialsTable = (trials: readonly Trial[]) =>
  renderTable([TRIAL_HEADERS.map((head) => head.toUpperCase()), ...trials.map(trialCells)]);

function renderTrialDetails(trial: Trial): string[] {
  const { degraded, errors, slo, tiers, caches } = trial;
  return [
    renderRates(trial),
    renderLatency(trial),
    ...(slo === undefined ? [] : [formatVerdict(slo)]),
    ...(errors.length === 0
      ? []
      : [
          renderTable([
            ["ERROR", "CALLS", "EXAMPLE"],
            ...errors.map(({ code, count, example }) => [code, count, example]),
          ]),
        ]),
    ...renderCounts("TIER", tiers),
    ...renderCounts("CACHE", caches),
    ...(degraded.count === 0
      ? []
      : [`degraded: ${degraded.count} (${formatPercent(degraded.share)})`]),
    ...renderPhases(trial),
    ...warningLines(trial),
  ];
}

function renderRates({
  offeredPerSecond,
  achievedPerSecond,
  seconds,
  scheduled,
  answered,
  failed,
  timedOut,
  unfinished,
  generator: { sendLagMs, cores, connectionsOpened },
}: Trial): string {
  return renderTable([
    ["offered", `${formatRate(offeredPerSecond)}/s`, `${scheduled} calls in ${seconds} s`],
    [
      "answered",
      `${formatRate(achievedPerSecond)}/s`,
      `${answered} answered, ${failed} failed, ${timedOut} timed out${unfinished === 0 ? "" : `, ${unfinished} unfinished`}`,
    ],
    [
      "send lag",
      `p50 ${formatMs(sendLagMs.p50)}, p99 ${formatMs(sendLagMs.p99)}, max ${formatMs(sendLagMs.max)}`,
      `${cores.toFixed(2)} cores used, ${connectionsOpened} connections opened`,
    ],
  ]);
}

const renderLatency = ({ latency }: Trial): string =>
  renderTable([
    ["LATENCY", "", "UPPER BOUND (99 % CONFIDENCE)", "SAMPLES ABOVE"],
    ...latency.percentiles.map(({ percentile, ms, atMostMs, samplesAbove }) => [
      `p${percentile}`,
      formatMs(ms),
      formatMsOrDash(atMostMs),
      samplesAbove,
    ]),
    ["max", formatMsOrDash(latency.maxMs)],
  ]);

const renderPhases = ({ phases }: Trial): string[] =>
  phases.length === 0
    ? []
    : [
        renderTable([
          ["SERVER PHASE", "P50", "P99", "SAMPLES"],
          ...phases.map(({ phase, p50Ms, p99Ms, samples }) => [
            phase,
            formatMs(p50Ms),
            formatMs(p99Ms),
            samples,
          ]),
        ]),
      ];

const renderCounts = (head: string, rows: Trial["tiers"]): string[] =>
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
      ? "too few samples to show the objective even without violations"
      : `at most ${mostOver} allowed to show the objective with ${formatPercent(confidence)} confidence`;
  return `objective: p${percentile} within ${ms} ms: ${verdict} (${over} of ${samples} calls exceeded it or failed; ${allowed})`;
}

const warningLines = ({ warnings, ratePerSecond }: Trial): string[] =>
  warnings.length === 0
    ? []
    : [
        `at ${formatRate(ratePerSecond)}/s:\n${warnings.map((warning) => `! ${warning}`).join("\n")}`,
      ];

function renderEnding({ highestRatePerSecond, isInterrupted }: LoadReport): string[] {
  const searchResult =
    highestRatePerSecond === undefined
      ? []
      : [
          highestRatePerSecond === null
            ? "No rate met the objective."
            : `highest rate that meets the objective: ${formatRate(highestRatePerSecond)}/s`,
        ];
  return [
    ...searchResult,
    ...(isInterrupted ? ["Stopped before its end; the figures cover the time until then."] : []),
  ];
}
