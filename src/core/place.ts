// A place on the Earth.

export interface Place {
  readonly latitudeDegrees: number;
  readonly longitudeDegrees: number;
}
