// Public status of the regions: distance, latency and health, as this isolate sees them.

import { greatCircleDistanceKm, type GeoPoint } from "../../core/geo.ts";
import type { RegionState } from "./region-state.ts";

export interface RegionStatus {
  readonly id: string;
  readonly place: GeoPoint | null;
  /** URL for direct calls. */
  readonly url?: string;
  readonly health: RegionState["health"];
  readonly distanceKm: number | null;
  /** Latency of calls from here, over all models; null without samples. */
  readonly latencyMs: { readonly p50: number; readonly p95: number } | null;
}

export function describeRegions(
  states: readonly RegionState[],
  from: GeoPoint | undefined,
): RegionStatus[] {
  const statuses = states.map((state): RegionStatus => {
    const { id, location: place, publicUrl } = state.region;
    const [p50, p95] = [state.latencies.quantileMs(0.5, 1), state.latencies.quantileMs(0.95, 1)];
    return {
      id,
      place: place ?? null,
      ...(publicUrl === undefined ? {} : { url: publicUrl }),
      health: state.health,
      distanceKm:
        from === undefined || place === undefined
          ? null
          : Math.round(greatCircleDistanceKm(from, place)),
      latencyMs: p50 === undefined || p95 === undefined ? null : { p50, p95 },
    };
  });
  return statuses.sort((a, b) => (a.distanceKm ?? Infinity) - (b.distanceKm ?? Infinity) || 0);
}
