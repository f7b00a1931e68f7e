// Metric catalog: lists all metrics of edge and region for rules and dashboards.

import { Registry } from "prom-client";
import * as z from "zod";
import { EDGE_METRICS } from "../../src/telemetry/edge-metric-definitions.ts";
import {
  defineCountersAndHistograms,
  defineGauges,
} from "../../src/telemetry/region-metric-definitions.ts";

export interface MetricInfo {
  readonly name: string;
  readonly kind: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
}

export const edgeMetrics: readonly MetricInfo[] = Object.entries(EDGE_METRICS).map(
  ([name, { kind, labels, help }]) => ({ name, kind, labels, help }),
);

/** Metric object of prom-client, whose types omit labels and kind. */
const registeredMetric = z.object({
  name: z.string(),
  help: z.string(),
  type: z.enum(["counter", "gauge", "histogram"]),
  labelNames: z.array(z.string()),
});

function readRegionMetrics(): readonly MetricInfo[] {
  const registry = new Registry();
  defineCountersAndHistograms(registry);
  defineGauges(registry, () => undefined);
  return registry.getMetricsAsArray().map((metric) => {
    const { name, help, type, labelNames } = registeredMetric.parse({ ...metric });
    return { name, help, kind: type, labels: labelNames };
  });
}

export const regionMetrics = readRegionMetrics();
