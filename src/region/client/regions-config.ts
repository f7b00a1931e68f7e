// Reads the regions of an edge from its variables: a list, or the short form for one region.

import * as z from "zod";
import { coreErrors } from "../../core/common-errors.ts";
import { httpUrlText, jsonText } from "../../core/config.ts";

const geoPointSchema = z.strictObject({
  latitudeDegrees: z.number().min(-90).max(90),
  longitudeDegrees: z.number().min(-180).max(180),
});

const regionSchema = z.strictObject({
  /** Appears in logs, metrics and GET /v1/regions. */
  id: z
    .string()
    .regex(
      /^[a-z0-9][a-z0-9_-]{0,31}$/,
      "must have 1 to 32 characters of a-z, 0-9, '-' and '_', and start with a letter or digit",
    ),
  /** Never exposed to clients. */
  url: httpUrlText(),
  place: geoPointSchema.optional(),
  /** Exposed by GET /v1/regions, for clients that call the region directly. */
  publicUrl: httpUrlText().optional(),
});
export type RegionConfig = z.output<typeof regionSchema>;

const regionListSchema = z
  .array(regionSchema)
  .min(1)
  .max(32)
  .refine(
    (regions) => new Set(regions.map(({ id }) => id)).size === regions.length,
    "two regions have the same id",
  );

export const regionVariables = {
  /** `[{"id": "eu-1", "url": "https://…", "place": {"latitudeDegrees": 50.1, "longitudeDegrees": 8.7}}]` */
  EDGETIER_REGIONS: jsonText((reason) => `must be JSON: ${reason}`)
    .pipe(regionListSchema)
    .optional(),
  /** Short form for one region. Without regions, every model has only its edge tiers. */
  EDGETIER_REGION_URL: httpUrlText().optional(),
  /** Hedges and retries per call to a region; 0 disables them. */
  EDGETIER_REGION_EXTRA_CALLS_SHARE: z.coerce.number().min(0).max(1).default(0.03),
  /** Whether a late call may be hedged in the same region if there is no other. */
  EDGETIER_REGION_HEDGE_SAME: z.enum(["true", "false"]).default("true"),
};

export type RegionVariables = z.output<z.ZodObject<typeof regionVariables>>;

/** @returns an empty list if no region is configured @throws invalid_configuration if both forms are set */
export function resolveRegions({
  EDGETIER_REGIONS: regions,
  EDGETIER_REGION_URL: url,
}: Pick<RegionVariables, "EDGETIER_REGIONS" | "EDGETIER_REGION_URL">): readonly RegionConfig[] {
  if (regions !== undefined && url !== undefined)
    throw coreErrors.invalidConfiguration([
      "EDGETIER_REGIONS: EDGETIER_REGION_URL is also set; keep one of them",
    ]);
  return regions ?? (url === undefined ? [] : [{ id: "default", url }]);
}
