// Response of `GET /metrics` if `accept` prefers `application/json`: all series since the aggregator started, for live
// pages.

import * as z from "zod";

const labelsSchema = z.record(z.string(), z.string());

export const metricsSnapshotSchema = z
  .object({
    /** Milliseconds since the epoch, by the aggregator's clock. */
    takenAtMs: z.number(),
    series: z.array(
      z.discriminatedUnion("kind", [
        z.object({
          kind: z.enum(["counter", "gauge"]),
          name: z.string(),
          labels: labelsSchema,
          value: z.number(),
        }),
        z.object({
          kind: z.literal("histogram"),
          name: z.string(),
          labels: labelsSchema,
          buckets: z.array(z.number()).meta({ description: "Upper bounds, ascending." }),
          counts: z
            .array(z.int())
            .meta({ description: "Count per bucket, not cumulative; one more for the overflow." }),
          sum: z.number(),
        }),
      ]),
    ),
  })
  .meta({ id: "MetricsSnapshot" });
export type MetricsSnapshot = z.output<typeof metricsSnapshotSchema>;
