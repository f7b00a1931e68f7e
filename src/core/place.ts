// A place on the Earth.

export interface Place {
  readonly latitudeDegrees: number;
  readonly longitudeDegrees: number;
}

const EARTH_RADIUS_KM = 6_371;
const radians = (degrees: number) => (degrees * Math.PI) / 180;

/** Along the great circle (haversine formula). */
export function distanceKm(from: Place, to: Place): number {
  const [phi1, phi2] = [radians(from.latitudeDegrees), radians(to.latitudeDegrees)];
  const half = (a: number, b: number) => Math.sin((b - a) / 2) ** 2;
  const haversine =
    half(phi1, phi2) +
    Math.cos(phi1) *
      Math.cos(phi2) *
      half(radians(from.longitudeDegrees), radians(to.longitudeDegrees));
  return 2 * EARTH_RADIUS_KM * Math.asin(Math.min(1, Math.sqrt(haversine)));
}
