// What `GET /metrics` answers where `accept` prefers `application/json`: all series since the aggregator began, for pages that show them live.

import * as z from "zod";

const labelsSchema = z.record(z.string(), z.string());

export const metricsSnapshotSchema = z
  .object({
    /** Milliseconds since 1970, by the aggregator's clock. */
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
            .meta({ description: "Of each bucket alone, not cumulative; one more for the rest." }),
          sum: z.number(),
        }),
      ]),
    ),
  })
  .meta({ id: "MetricsSnapshot" });
export type MetricsSnapshot = z.output<typeof metricsSnapshotSchema>;
