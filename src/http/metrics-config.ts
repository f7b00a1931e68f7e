// Metrics configuration: the bindings and variables that say where isolates report their metrics.

import * as z from "zod";
import { integerText } from "../core/config.ts";
import type { AnalyticsEngineDataset } from "../telemetry/analytics-engine.ts";
import type { MetricsBatch } from "../telemetry/metrics-aggregate.ts";
import type { Series } from "../telemetry/series-table.ts";

/** Durable Object namespace of functions/edge/metrics-aggregator.ts. */
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
  /** Aggregates the metrics of all isolates for GET /metrics. Without it and EDGETIER_ANALYTICS, metrics are off. */
  EDGETIER_METRICS: optionalBinding<MetricsAggregatorNamespace>("getByName", "durable_objects"),
  /** Number of aggregators. Each isolate reports to one, which accepts about a thousand batches a second. */
  EDGETIER_METRICS_SHARDS: integerText(1, 1, 64),
  /** Interval between two reports of an isolate. */
  EDGETIER_METRICS_INTERVAL_MS: integerText(1_000, 50, 20_000),
  /** Scope that GET /metrics requires. */
  EDGETIER_METRICS_SCOPE: z.enum(["admin", "metadata"]).default("admin"),
  EDGETIER_ANALYTICS: optionalBinding<AnalyticsEngineDataset>(
    "writeDataPoint",
    "analytics_engine_datasets",
  ),
};

export type MetricsConfig = z.output<z.ZodObject<typeof metricsVariables>>;
