// Where what isolates count goes, from the Worker's bindings and variables.

import * as z from "zod";
import { wholeNumber } from "../core/config.ts";
import type { Batch } from "../telemetry/aggregate.ts";
import type { AnalyticsDataset } from "../telemetry/analytics.ts";
import type { Series } from "../telemetry/series.ts";

/** functions/edge/metrics-aggregator.ts from the outside. */
export interface AggregatorNamespace {
  getByName(name: string): {
    /** Resolves when the batch is stored. */
    report(batch: Batch): Promise<void>;
    read(): Promise<Series[]>;
  };
}

const binding = <Binding>(method: string, kind: string) =>
  z
    .custom<Binding>(
      (value) =>
        value instanceof Object && typeof (value as Record<string, unknown>)[method] === "function",
      `must be a binding of ${kind}`,
    )
    .optional();

export const metricsVariables = {
  /** Sums up what all isolates count. Without it there is no GET /metrics, and without EDGETIER_ANALYTICS as well nothing is counted. */
  EDGETIER_METRICS: binding<AggregatorNamespace>("getByName", "durable_objects"),
  /** Aggregators; each isolate keeps to one, which takes about a thousand batches a second. */
  EDGETIER_METRICS_SHARDS: wholeNumber(1, 1, 64),
  /** For how long an isolate counts before it reports. */
  EDGETIER_METRICS_INTERVAL_MS: wholeNumber(1_000, 50, 20_000),
  /** Of GET /metrics. */
  EDGETIER_METRICS_SCOPE: z.enum(["admin", "metadata"]).default("admin"),
  EDGETIER_ANALYTICS: binding<AnalyticsDataset>("writeDataPoint", "analytics_engine_datasets"),
};

export type MetricsConfig = z.output<z.ZodObject<typeof metricsVariables>>;
