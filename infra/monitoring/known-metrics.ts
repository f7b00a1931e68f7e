// Every metric that edge and region have, from the files that define them: what rules and dashboards may name.

import { Registry } from "prom-client";
import * as z from "zod";
import { EDGE_METRICS } from "../../src/telemetry/edge-metrics.ts";
import { defineCounted, defineGauges } from "../../src/telemetry/region-metric-names.ts";

export interface KnownMetric {
  readonly name: string;
  readonly kind: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
}

export const edgeMetrics: readonly KnownMetric[] = Object.entries(EDGE_METRICS).map(
  ([name, { kind, labels, help }]) => ({ name, kind, labels, help }),
);

/** As prom-client keeps it; its types know neither the labels nor the kind. */
const defined = z.object({
  name: z.string(),
  help: z.string(),
  type: z.enum(["counter", "gauge", "histogram"]),
  labelNames: z.array(z.string()),
});

function regionMetricsOf(): readonly KnownMetric[] {
  const registry = new Registry();
  defineCounted(registry);
  defineGauges(registry, () => undefined);
  return registry.getMetricsAsArray().map((metric) => {
    const { name, help, type, labelNames } = defined.parse({ ...metric });
    return { name, help, kind: type, labels: labelNames };
  });
}

export const regionMetrics = regionMetricsOf();
