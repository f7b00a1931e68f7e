// Input layer: turns a sample into the row of numbers that the first dense layer reads. It passes
// fixed rows on, or it computes trainable embeddings (embedding-bag.ts).

export interface InputLayer {
  readonly sampleCount: number;
  /** Length of a row. */
  readonly width: number;
  /** Writes the samples' rows into `rows` consecutively. Dropout draws from `random`. */
  forward(samples: Uint32Array, rows: Float32Array, random: () => number): void;
  /**
   * Updates the parameters.
   * @param gradient loss gradient with respect to the rows that `forward` wrote last
   */
  backward?(gradient: Float32Array, learningRate: number): void;
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
