// Authentication of the region's clients, created from its settings.

import type { MiddlewareHandler } from "hono";
import { createSignatureAuth } from "../../src/region/server/auth/signature-auth.ts";
import type { RegionEnv } from "../../src/region/server/routes/route-helpers.ts";
import type { RegionSettings } from "./settings.ts";

const LOOPBACK = /^(127\.|::1$|localhost$)/;

/** @returns undefined for a region without authentication; a warning is logged if other machines can reach it */
export async function createAuthentication(
  settings: RegionSettings,
  log: (event: object) => void,
): Promise<MiddlewareHandler<RegionEnv> | undefined> {
  const { EDGETIER_REGION_KEYS: keys, EDGETIER_REGION_HOST: host } = settings;
  if (keys === undefined) {
    if (!LOOPBACK.test(host))
      log({
        event: "open_to_everyone",
        host,
        remedy: "Set EDGETIER_REGION_KEYS; generate a key with `edgetier region key`.",
      });
    return undefined;
  }
  log({ event: "signatures_required", keys: keys.map(({ id }) => id) });
  return await createSignatureAuth({
    keys,
    publicPaths: settings.EDGETIER_REGION_OPEN_PATHS,
    clockToleranceMs: settings.EDGETIER_REGION_CLOCK_TOLERANCE_MS,
    maxNonces: settings.EDGETIER_REGION_MAX_NONCES,
  });
}
