// What stands in front of the dense layers, and makes a sample a row of numbers: the rows themselves, or embeddings
// (embedding-bag.ts) that are trained along.

export interface InputLayer {
  readonly sampleCount: number;
  /** Numbers of a row. */
  readonly width: number;
  /** Writes the samples' rows into `rows`, one after the other. Random where it drops features. */
  forward(samples: Uint32Array, rows: Float32Array, random: () => number): void;
  /** Learns from the loss's gradient by the rows that `forward` wrote last. */
  backward?(gradient: Float32Array, rate: number): void;
}

/** @param rows [n, width] */
export function createFixedInputLayer(rows: Float32Array, width: number): InputLayer {
  return {
    sampleCount: rows.length / width,
    width,
    forward(samples, into) {
      samples.forEach((sample, position) =>
        into.set(rows.subarray(sample * width, (sample + 1) * width), position * width),
      );
    },
  };
}
