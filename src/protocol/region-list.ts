// Response of `GET /v1/regions`.

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
                "Public URL of the region for the Open Inference Protocol. Most regions have none.",
            }),
            health: z.enum(["healthy", "doubtful", "unhealthy"]).meta({
              description:
                "Health by the recent calls of the responding isolate. An unhealthy region receives no calls for a while.",
            }),
            distanceKm: z.int().nullable().meta({
              description: "Estimated distance from the client; null if its location is unknown.",
            }),
            latencyMs: z.object({ p50: z.number(), p95: z.number() }).nullable().meta({
              description: "Latency of the responding isolate's recent calls, over all models.",
            }),
          })
          .meta({ id: "Region" }),
      )
      .meta({ description: "Regions, nearest first." }),
  })
  .meta({ id: "RegionList" });
export type RegionList = z.output<typeof regionListSchema>;
