// Metrics route: GET /metrics returns the metrics of all isolates, in Prometheus text format or as JSON.

import { Hono } from "hono";
import type { Clock } from "../../core/clock.ts";
import { coreErrors } from "../../core/common-errors.ts";
import type { MetricsSnapshot } from "../../protocol/metrics-snapshot.ts";
import {
  EDGE_METRICS,
  isMetricName,
  type MetricDefinition,
} from "../../telemetry/edge-metric-definitions.ts";
import { PROMETHEUS_MEDIA_TYPE, formatPrometheusText } from "../../telemetry/prometheus-text.ts";
import type { Series } from "../../telemetry/series-table.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { AppEnv } from "../app-env.ts";
import { httpErrors } from "../errors.ts";

/** @param telemetry undefined if metrics are off */
export function metricsRoutes(telemetry: Telemetry | undefined, clock: Clock): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();
  routes.get("/metrics", async (c) => {
    if (telemetry?.readSeries === undefined)
      throw coreErrors.unsupported(
        "GET /metrics without an aggregator",
        "Bind the Durable Object EDGETIER_METRICS, as the wrangler.toml template does.",
      );
    await telemetry.reporter.flush(); // includes the requests that this isolate has just served
    const series = await telemetry.readSeries().catch((error: unknown) => {
      throw httpErrors.metricsUnavailable(error);
    });
    c.header("cache-control", "no-store");
    if (prefersJson(c.req.header("accept")))
      return c.json({
        takenAtMs: clock.now(),
        series: series.flatMap(toMetricSample),
      } satisfies MetricsSnapshot);
    return c.body(formatPrometheusText(series), 200, { "content-type": PROMETHEUS_MEDIA_TYPE });
  });
  return routes;
}

/** Prometheus does not name JSON, and pages name it first. Hono's content negotiation would add 2.8 kB to the script. */
const prefersJson = (accept = ""): boolean => /^\s*application\/json\b/i.test(accept);

function toMetricSample(series: Series): MetricsSnapshot["series"] {
  const { name } = series;
  if (!isMetricName(name)) return [];
  const definition: MetricDefinition = EDGE_METRICS[name];
  const labels = Object.fromEntries(
    definition.labels.map((label, index) => [label, series.labels[index] ?? ""]),
  );
  if (series.kind !== "histogram")
    return [{ kind: series.kind, name, labels, value: series.value }];
  const buckets = definition.kind === "histogram" ? [...definition.buckets] : [];
  return [
    { kind: series.kind, name, labels, buckets, counts: [...series.counts], sum: series.sum },
  ];
}
