// Texts as the sum of their features' embeddings over the root of their number: the first layer of students on hashed n-grams.

import { Adam } from "./adam.ts";
import { fakeQuantizeColumns } from "./fake-quantize.ts";
import type { InputLayer } from "./input-layer.ts";

/** The features of many samples, one after the other. */
export interface FeatureBags {
  /** Rows of the table; row 0 is padding, and always zeros. */
  readonly ids: Int32Array;
  /** Where each sample's begin, and at the end where the last one's stop. */
  readonly offsets: Uint32Array;
}

export function packBags(samples: readonly Int32Array[]): FeatureBags {
  const starts = new Uint32Array(samples.length + 1);
  samples.forEach((ids, sample) => (starts[sample + 1] = (starts[sample] ?? 0) + ids.length));
  const ids = new Int32Array(starts.at(-1) ?? 0);
  samples.forEach((own, sample) => ids.set(own, starts[sample]));
  return { ids, offsets: starts };
}

/** Normal numbers (Box and Muller), row 0 zeros. @returns [rows, width] */
export function randomEmbeddings(
  rows: number,
  width: number,
  deviation: number,
  random: () => number,
): Float32Array {
  const normal = () =>
    deviation * Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return Float32Array.from({ length: rows * width }, (_, index) => (index < width ? 0 : normal()));
}

export interface EmbeddingBagOptions {
  /** Share of the features that a sample is learnt without, drawn anew each time. One at least stays. */
  readonly dropout?: number | undefined;
  /** The table is rounded to INT8, a scale for each column, as it will be when it is quantised. */
  readonly isFakeQuantized?: boolean | undefined;
}

/** @param table [rows, width]; is changed by training */
export function createEmbeddingBag(
  { ids, offsets: starts }: FeatureBags,
  table: Float32Array,
  width: number,
  { dropout = 0, isFakeQuantized: isRounded = false }: EmbeddingBagOptions = {},
): InputLayer {
  const adam = new Adam(table);
  const gradients = new Float32Array(table.length);
  const rounded = isRounded ? new Float32Array(table.length) : table;
  // What `forward` took, for `learn`.
  let taken = new Int32Array(0);
  let ends = new Uint32Array(0);

  return {
    sampleCount: starts.length - 1,
    width,

    forward(samples, rows, random) {
      if (isRounded) fakeQuantizeColumns(table, width, rounded);
      take(samples, random);
      rows.fill(0);
      for (let position = 0, at = 0; position < samples.length; position++) {
        const end = ends[position] ?? at;
        const row = position * width;
        const factor = 1 / Math.sqrt(Math.max(1, end - at));
        for (; at < end; at++) {
          const from = (taken[at] ?? 0) * width;
          for (let column = 0; column < width; column++)
            rows[row + column] = (rows[row + column] ?? 0) + (rounded[from + column] ?? 0);
        }
        for (let column = 0; column < width; column++)
          rows[row + column] = (rows[row + column] ?? 0) * factor;
      }
    },

    backward(gradient, rate) {
      gradients.fill(0);
      const own = new Float32Array(width);
      for (let position = 0, at = 0; position < ends.length; position++) {
        const end = ends[position] ?? at;
        const row = position * width;
        const factor = 1 / Math.sqrt(Math.max(1, end - at));
        for (let column = 0; column < width; column++)
          own[column] = (gradient[row + column] ?? 0) * factor;
        for (; at < end; at++) {
          const to = (taken[at] ?? 0) * width;
          for (let column = 0; column < width; column++)
            gradients[to + column] = (gradients[to + column] ?? 0) + (own[column] ?? 0);
        }
      }
      gradients.fill(0, 0, width);
      adam.step(gradients, rate);
    },
  };

  /** Features of the padding id count for nothing: a sample of nothing else has the row of zeros. */
  function take(samples: Uint32Array, random: () => number): void {
    const most = samples.reduce(
      (sum, sample) => sum + (starts[sample + 1] ?? 0) - (starts[sample] ?? 0),
      0,
    );
    if (taken.length < most) taken = new Int32Array(2 * most);
    if (ends.length !== samples.length) ends = new Uint32Array(samples.length);
    let count = 0;
    samples.forEach((sample, position) => {
      const [first, last] = [starts[sample] ?? 0, starts[sample + 1] ?? 0];
      const before = count;
      for (let at = first; at < last; at++) {
        const id = ids[at] ?? 0;
        if (id !== 0 && (dropout === 0 || random() >= dropout)) taken[count++] = id;
      }
      if (count === before)
        for (let at = first; at < last; at++) if (ids[at] !== 0) taken[count++] = ids[at] ?? 0;
      ends[position] = count;
    });
  }
}
