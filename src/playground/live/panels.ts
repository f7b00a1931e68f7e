// What the live panel shows, from a snapshot of counts.

import type { MetricsSnapshot } from "../../protocol/metrics-snapshot.ts";
import type { ModelList } from "../../protocol/model-detail.ts";
import type { RegionList } from "../../protocol/region-list.ts";
import { type BarSeries, stackedBarChart } from "../charts.ts";
import { bar, element, table } from "../dom.ts";
import { formatCount, formatPercent, formatMs } from "../format.ts";
import { computeAxisScale } from "../../core/axis-scale.ts";
import { sumByLabel, mergeHistograms, histogramQuantile, sumValues } from "./metric-deltas.ts";
import { CACHE_SERIES_NAME, type AnswerRates } from "./snapshot-history.ts";

export interface LiveState {
  /** Undefined while nothing was counted. */
  readonly snapshot: MetricsSnapshot | undefined;
  /** From poll to poll, the oldest first. */
  readonly rates: readonly AnswerRates[];
  readonly pollSeconds: number;
  readonly regions: RegionList["regions"];
  readonly models: ModelList["models"];
}

const SLOTS = 30;
const COLOR_COUNT = 5;

export function renderLivePanels({
  snapshot: shown,
  rates,
  pollSeconds,
  regions,
  models,
}: LiveState): HTMLElement[] {
  const counted =
    shown === undefined
      ? []
      : [trafficPanel(shown, rates, pollSeconds), latencyPanel(shown), cachePanel(shown)];
  return [...counted, regionsPanel(regions, shown), versionsPanel(models, shown)];
}

const panel = (title: string, ...content: readonly (Node | string)[]) =>
  element(
    "div",
    { class: "card" },
    ...(title === "" ? [] : [element("h3", {}, title)]),
    ...content,
  );

function trafficPanel(
  shown: MetricsSnapshot,
  rates: readonly AnswerRates[],
  pollSeconds: number,
): HTMLElement {
  const answers = sumByLabel(shown, "edgetier_answers_total", "tier");
  const degraded =
    sumValues(answers) - (sumByLabel(shown, "edgetier_answers_total", "degraded_by").get("") ?? 0);
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
  const most = Math.max(...rates.map(({ perSecond }) => sumValues(perSecond)), 0);
  const seconds = SLOTS * pollSeconds;
  const chart = stackedBarChart(
    {
      id: "traffic",
      width: 760,
      title: "Answers a second, by tier",
      description: `The last ${seconds} seconds; at most ${most.toFixed(1)} a second. ${stacks.map(({ name, values }) => `${name}: ${(values.at(-1) ?? 0).toFixed(1)} now`).join("; ")}.`,
      x: {
        label: "seconds ago",
        scale: computeAxisScale(-seconds, 0),
        format: (value) => String(Math.round(-value)),
      },
      y: {
        label: "answers a second",
        scale: computeAxisScale(0, Math.max(most, 1)),
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
    table("Answers by tier", [["Tier", "Answers", "Share"], ...rows]),
    element(
      "p",
      { class: "note" },
      `Requests: ${formatCount(sumValues(sumByLabel(shown, "edgetier_requests_total", "route")))}. Degraded answers: ${formatCount(degraded)}. Cold starts: ${formatCount(sumValues(sumByLabel(shown, "edgetier_isolates_started_total", "")))}.`,
    ),
  );
}

/** Routes that answer; the others are this page's own polls for the most part. */
const INFERENCE_ROUTES = ["predict", "embeddings", "infer"];

function latencyPanel(shown: MetricsSnapshot): HTMLElement {
  const rows = INFERENCE_ROUTES.flatMap((route) =>
    [...sumByLabel(shown, "edgetier_request_duration_seconds", "model", { route })]
      .filter(([, requests]) => requests > 0)
      .map(([model, requests]) => {
        const histogram = mergeHistograms(shown, "edgetier_request_duration_seconds", {
          route,
          model,
        });
        const at = (share: number) =>
          formatMs(1_000 * ((histogram && histogramQuantile(histogram, share)) ?? Number.NaN));
        const deadline = sumByLabel(shown, "edgetier_deadline_seconds", "model", { model }).get(
          model,
        );
        return [
          route === "predict" ? model : `${model} (${route})`,
          formatCount(requests),
          at(0.5),
          at(0.95),
          at(0.99),
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
      "In milliseconds. What requests waited, by the isolate's clock: it stands still while a tier computes at the edge.",
    ),
  );
}

function cachePanel(shown: MetricsSnapshot): HTMLElement {
  const results = [...sumByLabel(shown, "edgetier_cache_results_total", "result")].toSorted(
    ([, a], [, b]) => b - a,
  );
  const all = Math.max(
    1,
    results.reduce((sum, [, own]) => sum + own, 0),
  );
  const rows = results.map(([result, own]) => [
    result,
    bar(`${result}: ${formatPercent(own / all)}`, own / all),
    formatCount(own),
    formatPercent(own / all),
  ]);
  return panel(
    "Caches",
    table("Where answers came from", [
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
  shown: MetricsSnapshot | undefined,
): HTMLElement {
  if (regions.length === 0)
    return panel(
      "Regions",
      element("p", { class: "note" }, "None is configured, or none was told."),
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
    shown === undefined
      ? "–"
      : formatCount(
          sumValues(sumByLabel(shown, "edgetier_region_calls_total", "result", { region: id })),
        ),
  ]);
  return panel(
    "Regions",
    table("Regions, the nearest first", [
      ["Region", "Health", "Distance", "p50 ms", "p95 ms", "Calls"],
      ...rows,
    ]),
    element("p", { class: "note" }, "Health and latency as the isolate sees them that answers."),
  );
}

function versionsPanel(
  models: ModelList["models"],
  shown: MetricsSnapshot | undefined,
): HTMLElement {
  const rows = models.flatMap(({ model, aliases, weights = {} }) => {
    const answered =
      shown === undefined
        ? new Map<string, number>()
        : sumByLabel(shown, "edgetier_answers_total", "version", { model });
    const taken = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
    return Object.entries(aliases).map(([alias, version]) => [
      model,
      alias,
      `v${version}`,
      alias === "stable"
        ? formatPercent(1 - taken, 0)
        : weights[alias] === undefined
          ? "–"
          : formatPercent(weights[alias], 0),
      formatCount(answered.get(String(version)) ?? 0),
    ]);
  });
  return panel(
    "Versions",
    table("Versions and their shares", [
      ["Model", "Alias", "Version", "Share", "Computed"],
      ...rows,
    ]),
  );
}
