// What `GET /v1/regions` answers.

import * as z from "zod";

export const regionListSchema = z
  .object({
    regions: z
      .array(
        z
          .object({
            id: z.string(),
            place: z
              .object({ latitudeDegrees: z.number(), longitudeDegrees: z.number() })
              .nullable(),
            url: z.string().optional().meta({
              description:
                "Where the region may be asked directly, over the Open Inference Protocol; most may not.",
            }),
            health: z.enum(["healthy", "doubtful", "unhealthy"]).meta({
              description:
                "By the calls of the isolate that answers; an unhealthy region is asked no more for a while.",
            }),
            distanceKm: z
              .int()
              .nullable()
              .meta({ description: "From where the request comes from, as far as that is known." }),
            latencyMs: z.object({ p50: z.number(), p95: z.number() }).nullable().meta({
              description: "Of the last calls of the isolate that answers, over all models.",
            }),
          })
          .meta({ id: "Region" }),
      )
      .meta({ description: "The nearest first." }),
  })
  .meta({ id: "RegionList" });
export type RegionList = z.output<typeof regionListSchema>;
