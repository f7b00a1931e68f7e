// Where what isolates count goes, from the Worker's bindings and variables.

import * as z from "zod";
import { integerText } from "../core/config.ts";
import type { MetricsBatch } from "../telemetry/metrics-aggregate.ts";
import type { AnalyticsEngineDataset } from "../telemetry/analytics-engine.ts";
import type { Series } from "../telemetry/series-table.ts";

/** functions/edge/metrics-aggregator.ts from the outside. */
export interface MetricsAggregatorNamespace {
  getByName(name: string): {
    /** Resolves when the batch is stored. */
    report(batch: MetricsBatch): Promise<void>;
    read(): Promise<Series[]>;
  };
}

const optionalBinding = <Binding>(method: string, kind: string) =>
  z
    .custom<Binding>(
      (value) =>
        value instanceof Object && typeof (value as Record<string, unknown>)[method] === "function",
      `must be a binding of ${kind}`,
    )
    .optional();

export const metricsVariables = {
  /** Sums up what all isolates count. Without it there is no GET /metrics, and without EDGETIER_ANALYTICS as well nothing is counted. */
  EDGETIER_METRICS: optionalBinding<MetricsAggregatorNamespace>("getByName", "durable_objects"),
  /** Aggregators; each isolate keeps to one, which takes about a thousand batches a second. */
  EDGETIER_METRICS_SHARDS: integerText(1, 1, 64),
  /** For how long an isolate counts before it reports. */
  EDGETIER_METRICS_INTERVAL_MS: integerText(1_000, 50, 20_000),
  /** Of GET /metrics. */
  EDGETIER_METRICS_SCOPE: z.enum(["admin", "metadata"]).default("admin"),
  EDGETIER_ANALYTICS: optionalBinding<AnalyticsEngineDataset>(
    "writeDataPoint",
    "analytics_engine_datasets",
  ),
};

export type MetricsConfig = z.output<z.ZodObject<typeof metricsVariables>>;
