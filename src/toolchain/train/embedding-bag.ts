// Embedding bag: sums the embeddings of a text's features and divides by the square root of their
// number. It is the first layer of students on hashed n-grams.

import { Adam } from "./adam.ts";
import { fakeQuantizeColumns } from "./fake-quantize.ts";
import type { InputLayer } from "./input-layer.ts";

/** Features of many samples, stored consecutively. */
export interface FeatureBags {
  /** Row numbers in the table. Row 0 is padding and stays zero. */
  readonly ids: Int32Array;
  /** Start of each sample in `ids`, followed by the end of the last sample. */
  readonly offsets: Uint32Array;
}

export function packBags(samples: readonly Int32Array[]): FeatureBags {
  const offsets = new Uint32Array(samples.length + 1);
  samples.forEach(
    (sampleIds, sample) => (offsets[sample + 1] = (offsets[sample] ?? 0) + sampleIds.length),
  );
  const ids = new Int32Array(offsets.at(-1) ?? 0);
  samples.forEach((sampleIds, sample) => ids.set(sampleIds, offsets[sample]));
  return { ids, offsets };
}

/** Draws normally distributed embeddings (Box-Muller); row 0 is zero. @returns [rows, width] */
export function randomEmbeddings(
  rows: number,
  width: number,
  stdDev: number,
  random: () => number,
): Float32Array {
  const normal = () =>
    stdDev * Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return Float32Array.from({ length: rows * width }, (_, index) => (index < width ? 0 : normal()));
}

export interface EmbeddingBagOptions {
  /**
   * Probability that a feature is dropped. If every feature of a sample would be dropped, all stay.
   */
  readonly dropout?: number | undefined;
  /** Rounds the table to INT8 with one scale for each column, as quantization will. */
  readonly isFakeQuantized?: boolean | undefined;
}

/** @param table [rows, width]; training changes it in place */
export function createEmbeddingBag(
  bags: FeatureBags,
  table: Float32Array,
  width: number,
  { dropout = 0, isFakeQuantized = false }: EmbeddingBagOptions = {},
): InputLayer {
  const adam = new Adam(table);
  const gradients = new Float32Array(table.length);
  const embeddings = isFakeQuantized ? new Float32Array(table.length) : table;
  const batch = new BagBatch(bags, dropout);
  return {
    sampleCount: bags.offsets.length - 1,
    width,
    forward(samples, rows, random) {
      if (isFakeQuantized) fakeQuantizeColumns(table, width, embeddings);
      batch.select(samples, random);
      sumEmbeddings(batch, embeddings, width, rows);
    },
    backward(gradient, learningRate) {
      spreadGradient(batch, gradient, width, gradients);
      adam.step(gradients, learningRate);
    },
  };
}

/** Features of a batch after dropout. `forward` selects them, and `backward` reads them again. */
class BagBatch {
  readonly #bags: FeatureBags;
  readonly #dropout: number;
  ids = new Int32Array(0);
  /** End of each sample in `ids`. */
  ends = new Uint32Array(0);

  constructor(bags: FeatureBags, dropout: number) {
    this.#bags = bags;
    this.#dropout = dropout;
  }

  /** Skips features with the padding id, so that a sample with only padding gets a row of zeros. */
  select(samples: Uint32Array, random: () => number): void {
    const { ids, offsets } = this.#bags;
    const capacity = samples.reduce(
      (sum, sample) => sum + (offsets[sample + 1] ?? 0) - (offsets[sample] ?? 0),
      0,
    );
    if (this.ids.length < capacity) this.ids = new Int32Array(2 * capacity);
    if (this.ends.length !== samples.length) this.ends = new Uint32Array(samples.length);
    const [selected, dropout] = [this.ids, this.#dropout];
    let count = 0;
    samples.forEach((sample, position) => {
      const [first, end] = [offsets[sample] ?? 0, offsets[sample + 1] ?? 0];
      const before = count;
      for (let index = first; index < end; index++) {
        const id = ids[index] ?? 0;
        if (id !== 0 && (dropout === 0 || random() >= dropout)) selected[count++] = id;
      }
      if (count === before)
        for (let index = first; index < end; index++)
          if (ids[index] !== 0) selected[count++] = ids[index] ?? 0;
      this.ends[position] = count;
    });
  }
}

function sumEmbeddings(
  { ids, ends }: BagBatch,
  embeddings: Float32Array,
  width: number,
  rows: Float32Array,
): void {
  rows.fill(0);
  for (let position = 0, index = 0; position < ends.length; position++) {
    const end = ends[position] ?? index;
    const row = position * width;
    const factor = 1 / Math.sqrt(Math.max(1, end - index));
    for (; index < end; index++) {
      const from = (ids[index] ?? 0) * width;
      for (let column = 0; column < width; column++)
        rows[row + column] = (rows[row + column] ?? 0) + (embeddings[from + column] ?? 0);
    }
    for (let column = 0; column < width; column++)
      rows[row + column] = (rows[row + column] ?? 0) * factor;
  }
}

/**
 * Distributes the gradient of the rows over the embeddings that were summed. The padding row gets
 * none.
 */
function spreadGradient(
  { ids, ends }: BagBatch,
  gradient: Float32Array,
  width: number,
  gradients: Float32Array,
): void {
  gradients.fill(0);
  const scaled = new Float32Array(width);
  for (let position = 0, index = 0; position < ends.length; position++) {
    const end = ends[position] ?? index;
    const row = position * width;
    const factor = 1 / Math.sqrt(Math.max(1, end - index));
    for (let column = 0; column < width; column++)
      scaled[column] = (gradient[row + column] ?? 0) * factor;
    for (; index < end; index++) {
      const to = (ids[index] ?? 0) * width;
      for (let column = 0; column < width; column++)
        gradients[to + column] = (gradients[to + column] ?? 0) + (scaled[column] ?? 0);
    }
  }
  gradients.fill(0, 0, width);
}
