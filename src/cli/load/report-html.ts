// HTML report: renders a load report as one self-contained page with tables and plots.

import {
  renderHtmlTable,
  renderPlots,
  renderReportPage,
} from "../../toolchain/report/report-page.ts";
import {
  escapeXml,
  type Plot,
  paddedRange,
  type PlotSeries,
} from "../../toolchain/report/svg-plot.ts";
import { formatMs, formatRate } from "./progress.ts";
import type { LoadReport, Trial } from "./report-schema.ts";
import {
  formatPercent,
  describeLoad,
  TRIAL_HEADERS,
  trialCells,
  formatVerdict,
} from "./report-text.ts";

export function renderReportHtml(report: LoadReport): string {
  const {
    trials,
    model,
    edgetier,
    startedAt,
    highestRatePerSecond: highest,
    isInterrupted,
  } = report;
  const searchResult =
    highest === undefined
      ? ""
      : highest === null
        ? "No rate met the objective. "
        : `The highest rate that meets the objective is ${formatRate(highest)} calls per second. `;
  return renderReportPage(`${model}: load`, [
    `<p>${escapeXml(`${searchResult}${isInterrupted ? "The load was stopped before its end. " : ""}`)}Started at ${escapeXml(startedAt)}, measured by edgetier ${escapeXml(edgetier)}. Latency is the time from a call's scheduled time to the last byte of its response.</p>`,
    `<p>${escapeXml(describeLoad(report)).replace("\n", "<br>")}</p>`,
    renderHtmlTable(TRIAL_HEADERS, trials.map(trialCells)),
    ...(trials.length > 1 ? [renderPlots([latencyByRate(trials)])] : []),
    ...trials.flatMap(renderTrial),
  ]);
}

function renderTrial(trial: Trial, position: number): string[] {
  const { slo, warnings, errors, phases, generator, degraded } = trial;
  const lines = [...(slo === undefined ? [] : [formatVerdict(slo)]), ...warnings];
  const shares = [
    ...trial.tiers.map((tier) => ({ kind: "tier", ...tier })),
    ...trial.caches.map((cache) => ({ kind: "cache", ...cache })),
    { kind: "degraded", name: "", ...degraded },
  ];
  return [
    `<section>\n<h2>${formatRate(trial.ratePerSecond)} calls per second</h2>`,
    ...lines.map((line) => `<p>${escapeXml(line)}</p>`),
    renderPlots(
      [histogramPlot, percentilePlot, latencyOverTime, rateOverTime].map((plot) =>
        plot(trial, position),
      ),
    ),
    renderHtmlTable(
      ["Latency", "", "Upper bound (99 % confidence)", "Samples above"],
      trial.latency.percentiles.map(({ percentile, ms, atMostMs, samplesAbove }) => [
        `p${percentile}`,
        formatMs(ms),
        atMostMs === null ? "-" : formatMs(atMostMs),
        samplesAbove,
      ]),
    ),
    ...(errors.length === 0
      ? []
      : [
          renderHtmlTable(
            ["Error", "Calls", "Example"],
            errors.map(({ code, count, example }) => [code, count, example]),
          ),
        ]),
    renderHtmlTable(
      ["Source", "", "Answers", "Share"],
      shares.map(({ kind, name, count, share }) => [kind, name, count, formatPercent(share)]),
    ),
    ...(phases.length === 0
      ? []
      : [
          renderHtmlTable(
            ["Server phase", "p50", "p99", "Samples"],
            phases.map(({ phase, p50Ms, p99Ms, samples }) => [
              phase,
              formatMs(p50Ms),
              formatMs(p99Ms),
              samples,
            ]),
          ),
        ]),
    renderHtmlTable(
      ["Load generator", "p50", "p99", "Max"],
      [
        ["send lag", generator.sendLagMs] as const,
        ["connection wait", generator.connectionWaitMs] as const,
      ].map(([name, { p50, p99, max }]) => [name, formatMs(p50), formatMs(p99), formatMs(max)]),
    ),
    "</section>",
  ];
}

const whole = (value: number) => String(Math.round(value));
const seconds = (value: number) => `${Number(value.toFixed(1))} s`;
/** Formats a tick of an axis of powers of ten. */
const formatPowerOfTen = (exponent: number) => formatMs(10 ** exponent);

/** Plots both ends of every bucket, so that the line has steps. */
function histogramPlot({ histogram, latency, slo }: Trial, position: number): Plot {
  const points = histogram.flatMap(
    ({ fromMs, toMs, count }) =>
      [
        [Math.log10(fromMs), count],
        [Math.log10(toMs), count],
      ] as const,
  );
  const [from, to] = paddedRange([
    ...points.map(([x]) => x),
    ...(slo === undefined ? [] : [Math.log10(slo.ms)]),
  ]);
  const maxCount = Math.max(1, ...histogram.map(({ count }) => count));
  return {
    id: `histogram-${position}`,
    title: "Latencies",
    description: `Histogram of the latencies of ${latency.samples} calls, with a logarithmic latency axis.`,
    x: { label: "latency", min: from, max: to, format: formatPowerOfTen },
    y: { label: "calls", min: 0, max: maxCount, format: whole },
    series: [
      { name: "calls", kind: "line", color: 2, points },
      ...objectiveLine(slo, (ms) => [
        [Math.log10(ms), 0],
        [Math.log10(ms), maxCount],
      ]),
    ],
  };
}

const MAX_NINES = 5;

/** Plots quantiles with one more nine per tick, which stretches the tail. */
function percentilePlot({ histogram, latency, slo }: Trial, position: number): Plot {
  let below = 0;
  const points = histogram.flatMap(({ toMs, count }): [number, number][] => {
    below += count;
    return below < latency.samples
      ? [[-Math.log10(1 - below / latency.samples), Math.log10(toMs)]]
      : [];
  });
  const last =
    latency.maxMs === null
      ? []
      : [[Math.log10(latency.samples), Math.log10(latency.maxMs)] as const];
  const [from, to] = paddedRange([
    ...points.map(([, y]) => y),
    ...last.map(([, y]) => y),
    ...(slo === undefined ? [] : [Math.log10(slo.ms)]),
  ]);
  return {
    id: `percentiles-${position}`,
    title: "Latency by percentile",
    description: latency.percentiles
      .map(({ percentile, ms }) => `p${percentile}: ${formatMs(ms)}.`)
      .join(" "),
    x: {
      label: "percentile",
      min: 0,
      max: MAX_NINES,
      format: (nines) => String(Number((100 * (1 - 10 ** -nines)).toFixed(3))),
    },
    y: { label: "latency", min: from, max: to, format: formatPowerOfTen },
    series: [
      { name: "latency", kind: "line", color: 2, points: [...points, ...last] },
      ...objectiveLine(slo, (ms) => [
        [0, Math.log10(ms)],
        [MAX_NINES, Math.log10(ms)],
      ]),
    ],
  };
}

const objectiveLine = (
  slo: Trial["slo"],
  points: (ms: number) => PlotSeries["points"],
): PlotSeries[] =>
  slo === undefined
    ? []
    : [{ name: `objective, ${slo.ms} ms`, kind: "dashed", color: 3, points: points(slo.ms) }];

function latencyOverTime({ series, slo, ...trial }: Trial, position: number): Plot {
  const [from, to] = [0, trial.seconds];
  const values = series.points
    .flatMap(({ p50Ms, p99Ms }) => [p50Ms, p99Ms])
    .filter((ms) => ms !== null);
  const [yFrom, yTo] = paddedRange(
    [...values, ...(slo === undefined ? [] : [slo.ms])].map(Math.log10),
  );
  const line = (pick: (point: Trial["series"]["points"][number]) => number | null) =>
    series.points.map(
      (point) =>
        [point.atSeconds + series.stepSeconds / 2, Math.log10(pick(point) ?? Number.NaN)] as const,
    );
  return {
    id: `latency-over-time-${position}`,
    title: "Latency over time",
    description: `Percentiles of the calls that were due in each interval of ${series.stepSeconds} s.`,
    x: { label: "time", min: from, max: to, format: seconds },
    y: { label: "latency", min: yFrom, max: yTo, format: formatPowerOfTen },
    series: [
      { name: "p99", kind: "line", color: 1, points: line(({ p99Ms }) => p99Ms) },
      { name: "p50", kind: "line", color: 2, points: line(({ p50Ms }) => p50Ms) },
      ...objectiveLine(slo, (ms) => [
        [from, Math.log10(ms)],
        [to, Math.log10(ms)],
      ]),
    ],
  };
}

function rateOverTime({ series, seconds: to }: Trial, position: number): Plot {
  const line = (pick: (point: Trial["series"]["points"][number]) => number) =>
    series.points.map(
      (point) =>
        [point.atSeconds + series.stepSeconds / 2, pick(point) / series.stepSeconds] as const,
    );
  const lines = {
    offered: line(({ offered }) => offered),
    answered: line(({ answered }) => answered),
    failed: line(({ failed }) => failed),
  };
  return {
    id: `rate-over-time-${position}`,
    title: "Rate over time",
    description: `Calls due, answered and failed in each interval of ${series.stepSeconds} s, as calls per second.`,
    x: { label: "time", min: 0, max: to, format: seconds },
    y: {
      label: "calls per second",
      min: 0,
      max: Math.max(1, ...Object.values(lines).flatMap((points) => points.map(([, y]) => y))),
      format: whole,
    },
    series: [
      { name: "offered", kind: "dashed", color: 0, points: lines.offered },
      { name: "answered", kind: "line", color: 2, points: lines.answered },
      { name: "failed", kind: "line", color: 1, points: lines.failed },
    ],
  };
}

function latencyByRate(trials: readonly Trial[]): Plot {
  const line = (percentile: number) =>
    trials
      .map(
        (trial) =>
          [
            trial.offeredPerSecond,
            Math.log10(
              trial.latency.percentiles.find((entry) => entry.percentile === percentile)?.ms ??
                Number.NaN,
            ),
          ] as const,
      )
      .toSorted(([a], [b]) => a - b);
  const [p50, p99] = [line(50), line(99)];
  const slo = trials[0]?.slo;
  const [xFrom, xTo] = paddedRange(trials.map(({ offeredPerSecond }) => offeredPerSecond));
  const [yFrom, yTo] = paddedRange(
    [...p50, ...p99].map(([, y]) => y).concat(slo === undefined ? [] : [Math.log10(slo.ms)]),
  );
  return {
    id: "latency-by-rate",
    title: "Latency by rate",
    description: "p50 and p99 of each offered rate.",
    x: { label: "offered calls per second", min: xFrom, max: xTo, format: whole },
    y: { label: "latency", min: yFrom, max: yTo, format: formatPowerOfTen },
    series: [
      { name: "p99", kind: "line", color: 1, points: p99 },
      { name: "p99", kind: "points", color: 1, points: p99 },
      { name: "p50", kind: "line", color: 2, points: p50 },
      ...objectiveLine(slo, (ms) => [
        [xFrom, Math.log10(ms)],
        [xTo, Math.log10(ms)],
      ]),
    ],
  };
}
