// Every metric that edge and region have, from the files that define them: what rules and dashboards may name.

import { Registry } from "prom-client";
import { EDGE_METRICS } from "../../src/telemetry/edge-metrics.ts";
import { defineCounted, defineGauges } from "../../src/telemetry/region-metric-names.ts";

export interface KnownMetric {
  readonly name: string;
  readonly kind: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
}

export const edgeMetrics: readonly KnownMetric[] = Object.entries(EDGE_METRICS).map(([name, { kind, labels, help }]) => ({ name, kind, labels, help }));

/** In prom-client's metrics these are not part of the types. */
interface Defined {
  readonly labelNames: readonly string[];
}

function regionMetricsOf(): readonly KnownMetric[] {
  const registry = new Registry();
  defineCounted(registry);
  defineGauges(registry, () => undefined);
  return registry.getMetricsAsArray().map((metric) => {
    const { name, help } = metric;
    const type = String(metric.type);
    if (type !== "counter" && type !== "gauge" && type !== "histogram") throw new RangeError(`${name} is of a kind that no panel is made for`);
    return { name, help, kind: type, labels: (metric as unknown as Defined).labelNames };
  });
}

export const regionMetrics = regionMetricsOf();
