// Configured regions: creates the region pool from the deployment's variables, and counts its events.

import type { Clock } from "../core/clock.ts";
import { createRegionPool, type RegionPool } from "../region/client/region-pool.ts";
import { resolveRegions, type RegionVariables } from "../region/client/regions-config.ts";
import type { RegionClient } from "../region/region-client.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";

/**
 * @param createClient creates the client of the region at this URL
 * @returns undefined if no region is configured
 * @throws invalid_configuration
 */
export function createConfiguredRegions(
  config: RegionVariables,
  createClient: (baseUrl: string) => RegionClient,
  { clock, metrics }: { readonly clock: Clock; readonly metrics: EdgeMetrics },
): RegionPool | undefined {
  const regions = resolveRegions(config).map(({ url, place, ...region }) => ({
    ...region,
    location: place,
    client: createClient(url),
  }));
  if (regions.length === 0) return undefined;
  return createRegionPool(regions, {
    clock,
    extraCallRatio: config.EDGETIER_REGION_EXTRA_CALLS_SHARE,
    hedgeSameRegion: config.EDGETIER_REGION_HEDGE_SAME === "true",
    onEvent(event) {
      const { region } = event;
      if (event.kind === "circuit")
        metrics.count("edgetier_region_circuit_changes_total", { region, to: event.state });
      else if (event.kind === "extra_call")
        metrics.count("edgetier_region_extra_calls_total", {
          region,
          kind: event.reason,
          result: event.result,
        });
      else {
        metrics.count("edgetier_region_calls_total", { region, result: event.result });
        if (event.result === "ok")
          metrics.observe(
            "edgetier_region_call_duration_seconds",
            { region },
            event.durationMs / 1_000,
          );
      }
    },
  });
}
