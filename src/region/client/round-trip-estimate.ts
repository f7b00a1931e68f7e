// How long the way to a region and back takes, as far as distance tells: what it counts with until it has been measured.

import { greatCircleDistanceKm, type GeoPoint } from "../../core/geo.ts";

/** Of a round trip. The median of 38 pairs of AWS regions (cloudping.co, November 2026), 19 to 76: light in fibre would do 100. */
const KM_PER_MS = 55;
/** Within one town. */
const MIN_ROUND_TRIP_MS = 2;
/** Where either place is unknown. */
const DEFAULT_ROUND_TRIP_MS = 50;

export function estimateRoundTripMs(from: GeoPoint | undefined, to: GeoPoint | undefined): number {
  return from === undefined || to === undefined
    ? DEFAULT_ROUND_TRIP_MS
    : MIN_ROUND_TRIP_MS + greatCircleDistanceKm(from, to) / KM_PER_MS;
}
