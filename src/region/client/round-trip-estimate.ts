// Estimates the round trip to a region from its distance, until the latency has been measured.

import { greatCircleDistanceKm, type GeoPoint } from "../../core/geo.ts";

/**
 * Distance covered per millisecond of round trip: the median of 38 pairs of AWS regions (cloudping.co, November 2026), with
 * a range of 19 to 76. Light in fiber would reach 100.
 */
const KM_PER_MS = 55;
/** Round trip within one town. */
const MIN_ROUND_TRIP_MS = 2;
/** Round trip if either location is unknown. */
const DEFAULT_ROUND_TRIP_MS = 50;

export function estimateRoundTripMs(from: GeoPoint | undefined, to: GeoPoint | undefined): number {
  return from === undefined || to === undefined
    ? DEFAULT_ROUND_TRIP_MS
    : MIN_ROUND_TRIP_MS + greatCircleDistanceKm(from, to) / KM_PER_MS;
}
