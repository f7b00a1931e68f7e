// What the live panel shows, from a snapshot of counts.

import type { MetricsSnapshot } from "../../protocol/metrics.ts";
import type { ModelList } from "../../protocol/models.ts";
import type { RegionList } from "../../protocol/regions.ts";
import { type Stack, stackChart } from "../charts.ts";
import { bar, element, table } from "../dom.ts";
import { count, percent, plainMs } from "../format.ts";
import { roundScale } from "../../core/scale.ts";
import { countsBy, merged, quantile, total } from "./differences.ts";
import { FROM_CACHE, type Rates } from "./history.ts";

export interface LiveState {
  /** Undefined while nothing was counted. */
  readonly shown: MetricsSnapshot | undefined;
  /** From poll to poll, the oldest first. */
  readonly rates: readonly Rates[];
  readonly pollSeconds: number;
  readonly regions: RegionList["regions"];
  readonly models: ModelList["models"];
}

const SLOTS = 30;
const COLOURS = 5;

export function livePanels({
  shown,
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
  rates: readonly Rates[],
  pollSeconds: number,
): HTMLElement {
  const answers = countsBy(shown, "edgetier_answers_total", "tier");
  const degraded =
    total(answers) - (countsBy(shown, "edgetier_answers_total", "degraded_by").get("") ?? 0);
  const names = [
    ...new Set([...answers.keys(), ...rates.flatMap(({ perSecond }) => [...perSecond.keys()])]),
  ]
    .filter((name) => name !== FROM_CACHE)
    .toSorted();
  const stacks = [...names, FROM_CACHE].map((name, index): Stack => ({
    name,
    colour: name === FROM_CACHE ? COLOURS : index % COLOURS,
    values: rates.map(({ perSecond }) => perSecond.get(name) ?? 0),
  }));
  const most = Math.max(...rates.map(({ perSecond }) => total(perSecond)), 0);
  const seconds = SLOTS * pollSeconds;
  const chart = stackChart(
    {
      id: "traffic",
      width: 760,
      title: "Answers a second, by tier",
      description: `The last ${seconds} seconds; at most ${most.toFixed(1)} a second. ${stacks.map(({ name, values }) => `${name}: ${(values.at(-1) ?? 0).toFixed(1)} now`).join("; ")}.`,
      x: {
        label: "seconds ago",
        scale: roundScale(-seconds, 0),
        format: (value) => String(Math.round(-value)),
      },
      y: { label: "answers a second", scale: roundScale(0, Math.max(most, 1)), format: String },
    },
    stacks,
    SLOTS,
  );
  const rows = names.map((tier) => [
    tier,
    count(answers.get(tier) ?? 0),
    percent((answers.get(tier) ?? 0) / Math.max(1, total(answers))),
  ]);
  return element(
    "div",
    { class: "card double" },
    chart,
    table("Answers by tier", [["Tier", "Answers", "Share"], ...rows]),
    element(
      "p",
      { class: "note" },
      `Requests: ${count(total(countsBy(shown, "edgetier_requests_total", "route")))}. Degraded answers: ${count(degraded)}. Cold starts: ${count(total(countsBy(shown, "edgetier_isolates_started_total", "")))}.`,
    ),
  );
}

/** Routes that answer; the others are this page's own polls for the most part. */
const ANSWERING = ["predict", "embeddings", "infer"];

function latencyPanel(shown: MetricsSnapshot): HTMLElement {
  const rows = ANSWERING.flatMap((route) =>
    [...countsBy(shown, "edgetier_request_duration_seconds", "model", { route })]
      .filter(([, requests]) => requests > 0)
      .map(([model, requests]) => {
        const histogram = merged(shown, "edgetier_request_duration_seconds", { route, model });
        const at = (share: number) =>
          plainMs(1_000 * ((histogram && quantile(histogram, share)) ?? Number.NaN));
        const deadline = countsBy(shown, "edgetier_deadline_seconds", "model", { model }).get(
          model,
        );
        return [
          route === "predict" ? model : `${model} (${route})`,
          count(requests),
          at(0.5),
          at(0.95),
          at(0.99),
          deadline === undefined ? "–" : plainMs(1_000 * deadline),
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
  const results = [...countsBy(shown, "edgetier_cache_results_total", "result")].toSorted(
    ([, a], [, b]) => b - a,
  );
  const all = Math.max(
    1,
    results.reduce((sum, [, own]) => sum + own, 0),
  );
  const rows = results.map(([result, own]) => [
    result,
    bar(`${result}: ${percent(own / all)}`, own / all),
    count(own),
    percent(own / all),
  ]);
  return panel(
    "Caches",
    table("Where answers came from", [
      ["Layer", "", "Requests", "Share"].map(
        (name) => name || element("span", { class: "unseen" }, "Bar"),
      ),
      ...rows,
    ]),
  );
}

const HEALTH: Readonly<Record<string, string>> = {
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
      { class: HEALTH[health] ?? "" },
      `${health === "healthy" ? "●" : "▲"} ${health}`,
    ),
    distanceKm === null ? "–" : `${count(distanceKm)} km`,
    latencyMs === null ? "–" : plainMs(latencyMs.p50),
    latencyMs === null ? "–" : plainMs(latencyMs.p95),
    shown === undefined
      ? "–"
      : count(total(countsBy(shown, "edgetier_region_calls_total", "result", { region: id }))),
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
        : countsBy(shown, "edgetier_answers_total", "version", { model });
    const taken = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
    return Object.entries(aliases).map(([alias, version]) => [
      model,
      alias,
      `v${version}`,
      alias === "stable"
        ? percent(1 - taken, 0)
        : weights[alias] === undefined
          ? "–"
          : percent(weights[alias], 0),
      count(answered.get(String(version)) ?? 0),
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
