// Panels of the live view, rendered from a metrics snapshot.

import { computeAxisScale } from "../../core/axis-scale.ts";
import type { MetricsSnapshot } from "../../protocol/metrics-snapshot.ts";
import type { ModelList } from "../../protocol/model-detail.ts";
import type { RegionList } from "../../protocol/region-list.ts";
import { type BarSeries, stackedBarChart } from "../charts.ts";
import { bar, element, table } from "../dom.ts";
import { formatCount, formatPercent, formatMs } from "../format.ts";
import { sumByLabel, mergeHistograms, histogramQuantile, sumValues } from "./metric-deltas.ts";
import { CACHE_SERIES_NAME, type AnswerRates } from "./snapshot-history.ts";

export interface LiveState {
  /** Undefined before the first poll. */
  readonly snapshot: MetricsSnapshot | undefined;
  /** Rates between consecutive polls, oldest first. */
  readonly rates: readonly AnswerRates[];
  readonly pollSeconds: number;
  readonly regions: RegionList["regions"];
  readonly models: ModelList["models"];
}

const SLOTS = 30;
const COLOR_COUNT = 5;

export function renderLivePanels({
  snapshot,
  rates,
  pollSeconds,
  regions,
  models,
}: LiveState): HTMLElement[] {
  const metricPanels =
    snapshot === undefined
      ? []
      : [trafficPanel(snapshot, rates, pollSeconds), latencyPanel(snapshot), cachePanel(snapshot)];
  return [...metricPanels, regionsPanel(regions, snapshot), versionsPanel(models, snapshot)];
}

const panel = (title: string, ...content: readonly (Node | string)[]) =>
  element(
    "div",
    { class: "card" },
    ...(title === "" ? [] : [element("h3", {}, title)]),
    ...content,
  );

function trafficPanel(
  snapshot: MetricsSnapshot,
  rates: readonly AnswerRates[],
  pollSeconds: number,
): HTMLElement {
  const answers = sumByLabel(snapshot, "edgetier_answers_total", "tier");
  const degraded =
    sumValues(answers) -
    (sumByLabel(snapshot, "edgetier_answers_total", "degraded_by").get("") ?? 0);
  const names = [
    ...new Set([...answers.keys(), ...rates.flatMap(({ perSecond }) => [...perSecond.keys()])]),
  ]
    .filter((name) => name !== CACHE_SERIES_NAME)
    .toSorted();
  const stacks = [...names, CACHE_SERIES_NAME].map((name, index): BarSeries => ({
    name,
    color: name === CACHE_SERIES_NAME ? COLOR_COUNT : index % COLOR_COUNT,
    values: rates.map(({ perSecond }) => perSecond.get(name) ?? 0),
  }));
  const maxRate = Math.max(...rates.map(({ perSecond }) => sumValues(perSecond)), 0);
  const seconds = SLOTS * pollSeconds;
  const chart = stackedBarChart(
    {
      id: "traffic",
      width: 760,
      title: "Outputs per second, by tier",
      description: `The last ${seconds} seconds; at most ${maxRate.toFixed(1)} a second. ${stacks.map(({ name, values }) => `${name}: ${(values.at(-1) ?? 0).toFixed(1)} now`).join("; ")}.`,
      x: {
        label: "seconds ago",
        scale: computeAxisScale(-seconds, 0),
        format: (value) => String(Math.round(-value)),
      },
      y: {
        label: "outputs per second",
        scale: computeAxisScale(0, Math.max(maxRate, 1)),
        format: String,
      },
    },
    stacks,
    SLOTS,
  );
  const rows = names.map((tier) => [
    tier,
    formatCount(answers.get(tier) ?? 0),
    formatPercent((answers.get(tier) ?? 0) / Math.max(1, sumValues(answers))),
  ]);
  return element(
    "div",
    { class: "card double" },
    chart,
    table("Outputs by tier", [["Tier", "Outputs", "Share"], ...rows]),
    element(
      "p",
      { class: "note" },
      `Requests: ${formatCount(sumValues(sumByLabel(snapshot, "edgetier_requests_total", "route")))}. Degraded outputs: ${formatCount(degraded)}. Cold starts: ${formatCount(sumValues(sumByLabel(snapshot, "edgetier_isolates_started_total", "")))}.`,
    ),
  );
}

/** Other routes mostly serve this page's own polls. */
const INFERENCE_ROUTES = ["predict", "embeddings", "infer"];

function latencyPanel(snapshot: MetricsSnapshot): HTMLElement {
  const rows = INFERENCE_ROUTES.flatMap((route) =>
    [...sumByLabel(snapshot, "edgetier_request_duration_seconds", "model", { route })]
      .filter(([, requests]) => requests > 0)
      .map(([model, requests]) => {
        const histogram = mergeHistograms(snapshot, "edgetier_request_duration_seconds", {
          route,
          model,
        });
        const formatQuantile = (quantile: number) =>
          formatMs(1_000 * ((histogram && histogramQuantile(histogram, quantile)) ?? Number.NaN));
        const deadline = sumByLabel(snapshot, "edgetier_deadline_seconds", "model", { model }).get(
          model,
        );
        return [
          route === "predict" ? model : `${model} (${route})`,
          formatCount(requests),
          formatQuantile(0.5),
          formatQuantile(0.95),
          formatQuantile(0.99),
          deadline === undefined ? "–" : formatMs(1_000 * deadline),
        ];
      }),
  );
  return panel(
    "Latency, by model",
    table("Latency by model", [["Model", "Requests", "p50", "p95", "p99", "Deadline"], ...rows]),
    element(
      "p",
      { class: "note" },
      "Waiting time in milliseconds by the isolate's clock, which pauses during computation at the edge.",
    ),
  );
}

function cachePanel(snapshot: MetricsSnapshot): HTMLElement {
  const results = [...sumByLabel(snapshot, "edgetier_cache_results_total", "result")].toSorted(
    ([, a], [, b]) => b - a,
  );
  const total = Math.max(
    1,
    results.reduce((sum, [, count]) => sum + count, 0),
  );
  const rows = results.map(([result, count]) => [
    result,
    bar(`${result}: ${formatPercent(count / total)}`, count / total),
    formatCount(count),
    formatPercent(count / total),
  ]);
  return panel(
    "Caches",
    table("Requests by cache layer", [
      ["Layer", "", "Requests", "Share"].map(
        (name) => name || element("span", { class: "visually-hidden" }, "Bar"),
      ),
      ...rows,
    ]),
  );
}

const HEALTH_CLASSES: Readonly<Record<string, string>> = {
  healthy: "good",
  doubtful: "warn",
  unhealthy: "bad",
};

function regionsPanel(
  regions: RegionList["regions"],
  snapshot: MetricsSnapshot | undefined,
): HTMLElement {
  if (regions.length === 0)
    return panel(
      "Regions",
      element("p", { class: "note" }, "No region is configured or visible with this key."),
    );
  const rows = regions.map(({ id, health, distanceKm, latencyMs }) => [
    id,
    element(
      "span",
      { class: HEALTH_CLASSES[health] ?? "" },
      `${health === "healthy" ? "●" : "▲"} ${health}`,
    ),
    distanceKm === null ? "–" : `${formatCount(distanceKm)} km`,
    latencyMs === null ? "–" : formatMs(latencyMs.p50),
    latencyMs === null ? "–" : formatMs(latencyMs.p95),
    snapshot === undefined
      ? "–"
      : formatCount(
          sumValues(sumByLabel(snapshot, "edgetier_region_calls_total", "result", { region: id })),
        ),
  ]);
  return panel(
    "Regions",
    table("Regions, nearest first", [
      ["Region", "Health", "Distance", "p50 ms", "p95 ms", "Calls"],
      ...rows,
    ]),
    element("p", { class: "note" }, "Health and latency as seen by the responding isolate."),
  );
}

function versionsPanel(
  models: ModelList["models"],
  snapshot: MetricsSnapshot | undefined,
): HTMLElement {
  const rows = models.flatMap(({ model, aliases, weights = {} }) => {
    const outputsByVersion =
      snapshot === undefined
        ? new Map<string, number>()
        : sumByLabel(snapshot, "edgetier_answers_total", "version", { model });
    const canaryShare = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
    return Object.entries(aliases).map(([alias, version]) => [
      model,
      alias,
      `v${version}`,
      alias === "stable"
        ? formatPercent(1 - canaryShare, 0)
        : weights[alias] === undefined
          ? "–"
          : formatPercent(weights[alias], 0),
      formatCount(outputsByVersion.get(String(version)) ?? 0),
    ]);
  });
  return panel(
    "Versions",
    table("Versions and traffic shares", [
      ["Model", "Alias", "Version", "Share", "Computed"],
      ...rows,
    ]),
  );
}
