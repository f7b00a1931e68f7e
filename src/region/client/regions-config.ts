// The regions an edge may ask, from its variables: a list, or the short form for one.

import { coreErrors } from "../../core/common-errors.ts";
import * as z from "zod";
import { httpUrlText, jsonText } from "../../core/config.ts";

const geoPointSchema = z.strictObject({
  latitudeDegrees: z.number().min(-90).max(90),
  longitudeDegrees: z.number().min(-180).max(180),
});

const regionSchema = z.strictObject({
  /** In logs, metrics and GET /v1/regions. */
  id: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,31}$/, "must be of a-z, 0-9, '-' and '_', 32 at most"),
  /** Never told to clients. */
  url: httpUrlText(),
  place: geoPointSchema.optional(),
  /** What GET /v1/regions tells, for clients that ask the region themselves. */
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
  /** The same for one region. Without either, every model has only its edge tiers. */
  EDGETIER_REGION_URL: httpUrlText().optional(),
  /** Hedges and retries for each call to a region; 0 forbids them. */
  EDGETIER_REGION_EXTRA_CALLS_SHARE: z.coerce.number().min(0).max(1).default(0.03),
  /** Whether a late call may be sent a second time to the same region where there is no other. */
  EDGETIER_REGION_HEDGE_SAME: z.enum(["true", "false"]).default("true"),
};

export type RegionVariables = z.output<z.ZodObject<typeof regionVariables>>;

/** @returns none where no region is configured @throws invalid_configuration for both forms at once */
export function resolveRegions({
  EDGETIER_REGIONS: regions,
  EDGETIER_REGION_URL: url,
}: Pick<RegionVariables, "EDGETIER_REGIONS" | "EDGETIER_REGION_URL">): readonly RegionConfig[] {
  if (regions !== undefined && url !== undefined)
    throw coreErrors.invalidConfiguration([
      "EDGETIER_REGIONS: EDGETIER_REGION_URL is set, too: keep one of them",
    ]);
  return regions ?? (url === undefined ? [] : [{ id: "default", url }]);
}
