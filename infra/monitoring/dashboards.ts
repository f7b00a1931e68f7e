// Grafana dashboards: first the panels for on-call engineers, then a generated panel for every metric. Generation
// guarantees that no metric is missing or misspelled.

import { edgeMetrics, type MetricInfo, regionMetrics } from "./metric-catalog.ts";

export interface Dashboard {
  readonly file: string;
  readonly json: object;
}

interface Query {
  readonly expr: string;
  readonly legend: string;
}

interface Panel {
  readonly title: string;
  readonly description: string;
  readonly unit: string;
  readonly queries: readonly Query[];
  /** Width, of the dashboard's 24 columns. */
  readonly columns: number;
}

/** Labels that a dashboard filters by. A filter applies only to metrics with its label. */
type Filters = readonly string[];

/** Prometheus data source, which the user selects. */
const DATASOURCE = { type: "prometheus", uid: "${datasource}" };
const ROW_HEIGHT = 8;
const INTERVAL = "$__rate_interval";
const QUANTILES = [0.5, 0.95, 0.99];

const labelSelector = (
  labels: readonly string[],
  filters: Filters,
  extraMatchers: readonly string[] = [],
): string => {
  const parts = [
    ...filters.filter((label) => labels.includes(label)).map((label) => `${label}=~"$${label}"`),
    ...extraMatchers,
  ];
  return parts.length === 0 ? "" : `{${parts.join(", ")}}`;
};
const legendOf = (labels: readonly string[]): string =>
  labels.map((label) => `{{${label}}}`).join(" ");
const sumBy = (labels: readonly string[]): string =>
  labels.length === 0 ? "sum" : `sum by (${labels.join(", ")})`;

/** Derives the unit from the suffix of the name. */
function unitOf({ name, kind }: MetricInfo): string {
  if (name.endsWith("_seconds")) return "s";
  if (name.endsWith("_bytes")) return "bytes";
  return kind === "counter" ? "cps" : "short";
}

/** @param scrapeLabels labels that Prometheus adds to every series, such as `instance` */
function metricPanel(metric: MetricInfo, filters: Filters, scrapeLabels: readonly string[]): Panel {
  const { name, kind, help, labels } = metric;
  const selector = labelSelector([...labels, ...scrapeLabels], filters);
  const frame = { title: name, description: help, unit: unitOf(metric), columns: 12 };
  if (kind === "gauge")
    return {
      ...frame,
      queries: [{ expr: `${name}${selector}`, legend: legendOf([...scrapeLabels, ...labels]) }],
    };
  if (kind === "counter") {
    if (name.endsWith("_us"))
      return {
        ...frame,
        unit: "percentunit",
        queries: [
          {
            expr: `${sumBy(labels)} (rate(${name}${selector}[${INTERVAL}])) / 1e6`,
            legend: legendOf(labels),
          },
        ],
      };
    return {
      ...frame,
      queries: [
        {
          expr: `${sumBy(labels)} (rate(${name}${selector}[${INTERVAL}]))`,
          legend: legendOf(labels),
        },
      ],
    };
  }
  return {
    ...frame,
    queries: QUANTILES.map((quantile) => ({
      expr: `histogram_quantile(${quantile}, ${sumBy([...labels, "le"])} (rate(${name}_bucket${selector}[${INTERVAL}])))`,
      legend: `p${quantile * 100} ${legendOf(labels)}`,
    })),
  };
}

const INFERENCE = 'route=~"predict|embeddings|infer", model=~"$model"';

const edgeOverview: readonly Panel[] = [
  {
    title: "Requests",
    description: "Answered requests, by status",
    unit: "reqps",
    columns: 8,
    queries: [
      {
        expr: `sum by (status) (rate(edgetier_requests_total{${INFERENCE}}[${INTERVAL}]))`,
        legend: "{{status}}",
      },
    ],
  },
  {
    title: "p99 and the deadline",
    description: "p99 latency, and the deadline in each model's manifest",
    unit: "s",
    columns: 8,
    queries: [
      {
        expr: `histogram_quantile(0.99, sum by (model, le) (rate(edgetier_request_duration_seconds_bucket{${INFERENCE}}[${INTERVAL}])))`,
        legend: "p99 {{model}}",
      },
      {
        expr: 'max by (model) (edgetier_deadline_seconds{model=~"$model"})',
        legend: "deadline {{model}}",
      },
    ],
  },
  {
    title: "Server errors",
    description: "Share of responses with status 5xx; the budget is 0.1 %",
    unit: "percentunit",
    columns: 8,
    queries: [
      {
        expr: `sum by (model) (rate(edgetier_requests_total{${INFERENCE}, status=~"5.."}[${INTERVAL}])) / sum by (model) (rate(edgetier_requests_total{${INFERENCE}}[${INTERVAL}]))`,
        legend: "{{model}}",
      },
    ],
  },
  {
    title: "Outputs by tier",
    description: "Share of the inputs that each tier answered",
    unit: "percentunit",
    columns: 8,
    queries: [
      {
        expr: `sum by (model, tier) (rate(edgetier_answers_total{model=~"$model"}[${INTERVAL}])) / on (model) group_left sum by (model) (rate(edgetier_answers_total{model=~"$model"}[${INTERVAL}]))`,
        legend: "{{model}} {{tier}}",
      },
    ],
  },
  {
    title: "Degraded outputs",
    description: "Share of degraded outputs, by the error that prevented the call of a better tier",
    unit: "percentunit",
    columns: 8,
    queries: [
      {
        expr: `sum by (model, degraded_by) (rate(edgetier_answers_total{model=~"$model", degraded_by!=""}[${INTERVAL}])) / on (model) group_left sum by (model) (rate(edgetier_answers_total{model=~"$model"}[${INTERVAL}]))`,
        legend: "{{model}} {{degraded_by}}",
      },
    ],
  },
  {
    title: "Requests by cache layer",
    description: "Share of the requests, by the source of their responses",
    unit: "percentunit",
    columns: 8,
    queries: [
      {
        expr: `sum by (result) (rate(edgetier_cache_results_total{model=~"$model"}[${INTERVAL}])) / on () group_left sum(rate(edgetier_cache_results_total{model=~"$model"}[${INTERVAL}]))`,
        legend: "{{result}}",
      },
    ],
  },
];

const regionOverview: readonly Panel[] = [
  {
    title: "Inferences",
    description: "Rows per second",
    unit: "reqps",
    columns: 8,
    queries: [
      {
        expr: `sum by (model) (rate(nv_inference_count{model=~"$model", instance=~"$instance"}[${INTERVAL}]))`,
        legend: "{{model}}",
      },
    ],
  },
  {
    title: "Failures",
    description: "Share of failed requests, by reason",
    unit: "percentunit",
    columns: 8,
    queries: [
      {
        expr: `sum by (reason) (rate(nv_inference_request_failure{model=~"$model", instance=~"$instance"}[${INTERVAL}])) / on () group_left () (sum(rate(nv_inference_request_success{model=~"$model", instance=~"$instance"}[${INTERVAL}])) + sum(rate(nv_inference_request_failure{model=~"$model", instance=~"$instance"}[${INTERVAL}])))`,
        legend: "{{reason}}",
      },
    ],
  },
  {
    title: "Rows per run",
    description: "Mean number of rows that share a run",
    unit: "short",
    columns: 8,
    queries: [
      {
        expr: `sum by (model, tier) (rate(edgetier_region_batch_rows_sum{model=~"$model", instance=~"$instance"}[${INTERVAL}])) / sum by (model, tier) (rate(edgetier_region_batch_rows_count{model=~"$model", instance=~"$instance"}[${INTERVAL}]))`,
        legend: "{{model}} {{tier}}",
      },
    ],
  },
];

export const dashboards: readonly Dashboard[] = [
  createDashboard(
    "edge",
    "EdgeTier edge",
    ["model"],
    { model: "edgetier_requests_total" },
    edgeOverview,
    edgeMetrics.map((metric) => metricPanel(metric, ["model"], [])),
  ),
  createDashboard(
    "region",
    "EdgeTier region",
    ["instance", "model"],
    { instance: "edgetier_region_state", model: "nv_inference_count" },
    regionOverview,
    regionMetrics.map((metric) => metricPanel(metric, ["instance", "model"], ["instance"])),
  ),
];

/** @param filterMetrics a metric for each filter, whose label values are the filter's options */
function createDashboard(
  name: string,
  title: string,
  filters: Filters,
  filterMetrics: Readonly<Record<string, string>>,
  overview: readonly Panel[],
  metricPanels: readonly Panel[],
): Dashboard {
  const variable = (filter: string) => ({
    type: "query",
    name: filter,
    label: filter,
    datasource: DATASOURCE,
    multi: true,
    includeAll: true,
    allValue: ".*",
    refresh: 2,
    query: { query: `label_values(${filterMetrics[filter]}, ${filter})`, refId: filter },
    current: { text: "All", value: "$__all" },
  });
  const source = {
    type: "datasource",
    name: "datasource",
    label: "Prometheus",
    query: "prometheus",
    current: {},
  };
  const overviewHeight =
    Math.ceil(overview.reduce((sum, { columns }) => sum + columns, 0) / 24) * ROW_HEIGHT;
  return {
    file: `${name}.json`,
    json: {
      uid: `edgetier-${name}`,
      title,
      tags: ["edgetier"],
      schemaVersion: 39,
      editable: true,
      refresh: "30s",
      time: { from: "now-6h", to: "now" },
      templating: { list: [source, ...filters.map(variable)] },
      panels: [
        ...layOutPanels(overview, 1, 0),
        {
          type: "row",
          id: overview.length + 1,
          title: "Every metric",
          collapsed: false,
          panels: [],
          gridPos: { x: 0, y: overviewHeight, w: 24, h: 1 },
        },
        ...layOutPanels(metricPanels, overview.length + 2, overviewHeight + 1),
      ],
    },
  };
}

/** Arranges panels from left to right in rows. */
function layOutPanels(panels: readonly Panel[], firstId: number, top: number): object[] {
  let usedColumns = 0;
  return panels.map(({ title, description, unit, queries, columns }, index) => {
    const gridPos = {
      x: usedColumns % 24,
      y: top + Math.floor(usedColumns / 24) * ROW_HEIGHT,
      w: columns,
      h: ROW_HEIGHT,
    };
    usedColumns += columns;
    return {
      type: "timeseries",
      id: firstId + index,
      title,
      description,
      datasource: DATASOURCE,
      gridPos,
      fieldConfig: {
        defaults: { unit, custom: { lineWidth: 1, fillOpacity: 10, showPoints: "never" } },
        overrides: [],
      },
      options: {
        legend: { displayMode: "table", placement: "bottom", calcs: ["mean", "max"] },
        tooltip: { mode: "multi", sort: "desc" },
      },
      targets: queries.map(({ expr, legend }, queryIndex) => ({
        refId: String.fromCharCode(65 + queryIndex),
        datasource: DATASOURCE,
        expr,
        legendFormat: legend.trim(),
      })),
    };
  });
}
