// Geographic points and the distance between them.

export interface GeoPoint {
  readonly latitudeDegrees: number;
  readonly longitudeDegrees: number;
}

const EARTH_RADIUS_KM = 6_371;
const toRadians = (degrees: number) => (degrees * Math.PI) / 180;

/** Computes the great-circle distance with the haversine formula. */
export function greatCircleDistanceKm(from: GeoPoint, to: GeoPoint): number {
  const [phi1, phi2] = [toRadians(from.latitudeDegrees), toRadians(to.latitudeDegrees)];
  const haversineOf = (a: number, b: number) => Math.sin((b - a) / 2) ** 2;
  const haversine =
    haversineOf(phi1, phi2) +
    Math.cos(phi1) *
      Math.cos(phi2) *
      haversineOf(toRadians(from.longitudeDegrees), toRadians(to.longitudeDegrees));
  return 2 * EARTH_RADIUS_KM * Math.asin(Math.min(1, Math.sqrt(haversine)));
}
