import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { quantizeWeights } from "../../../src/toolchain/quantize/quantize-weights.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import {
  packBags,
  createEmbeddingBag,
  randomEmbeddings,
} from "../../../src/toolchain/train/embedding-bag.ts";
import { fakeQuantizeColumns } from "../../../src/toolchain/train/fake-quantize.ts";

const WIDTH = 3;
const ROWS = 6;
const createTable = () => randomEmbeddings(ROWS, WIDTH, 1, seededRandom(1));
const allSamples = (count: number) => Uint32Array.from({ length: count }, (_, sample) => sample);
const sampleArbitrary = fc
  .array(fc.integer({ min: 0, max: ROWS - 1 }), { minLength: 1, maxLength: 6 })
  .map((ids) => Int32Array.from(ids));

function forward(
  samples: readonly Int32Array[],
  options: Parameters<typeof createEmbeddingBag>[3] = {},
  table = createTable(),
) {
  const layer = createEmbeddingBag(packBags(samples), table, WIDTH, options);
  const rows = new Float32Array(samples.length * WIDTH);
  layer.forward(allSamples(samples.length), rows, seededRandom(3));
  return { layer, rows };
}

describe("embedding bag", () => {
  it("divides the sum of the embeddings by the root of their number, without padding", () => {
    fc.assert(
      fc.property(fc.array(sampleArbitrary, { minLength: 1, maxLength: 4 }), (samples) => {
        const table = createTable();
        const { rows } = forward(samples, {}, table);
        samples.forEach((ids, sample) => {
          const features = ids.filter((id) => id !== 0);
          for (let column = 0; column < WIDTH; column++) {
            const sum = features.reduce(
              (total, id) => total + (table[id * WIDTH + column] ?? 0),
              0,
            );
            expect(rows[sample * WIDTH + column]).toBeCloseTo(
              sum / Math.sqrt(Math.max(1, features.length)),
              4,
            );
          }
        });
      }),
    );
  });

  it("moves embeddings along the gradient, without those that no sample uses", () => {
    const table = createTable();
    const before = table.slice();
    const samples = [Int32Array.of(1, 2, 2), Int32Array.of(3)];
    const { layer, rows } = forward(samples, {}, table);
    layer.backward?.(rows, 0.01); // The rows are the gradient of half their squared norm.
    const after = forward(samples, {}, table).rows;
    const squaredNorm = (values: Float32Array) =>
      values.reduce((sum, value) => sum + value * value, 0);
    expect(squaredNorm(after)).toBeLessThan(squaredNorm(rows));
    expect(table.subarray(4 * WIDTH)).toEqual(before.subarray(4 * WIDTH));
    expect([...table.subarray(0, WIDTH)]).toEqual([0, 0, 0]);
  });

  it("drops random features, but never all of a sample", () => {
    const samples = Array.from({ length: 50 }, () => Int32Array.of(1, 2, 3, 4, 5));
    const { rows } = forward(samples, { dropout: 0.9 });
    const distinctRows = new Set(
      samples.map((_, sample) => rows.subarray(sample * WIDTH, (sample + 1) * WIDTH).join()),
    );
    expect(distinctRows.size).toBeGreaterThan(5);
    expect(distinctRows).not.toContain("0,0,0");
  });
});

describe("fakeQuantizeColumns", () => {
  it("rounds in the same way as the quantizer", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.integer({ min: -1e6, max: 1e6 }).map((number) => number / 1e4),
          { minLength: 4, maxLength: 40 },
        ),
        (numbers) => {
          const columns = 2;
          const matrix = Float32Array.from(
            numbers.slice(0, numbers.length - (numbers.length % columns)),
          );
          const rounded = new Float32Array(matrix.length);
          fakeQuantizeColumns(matrix, columns, rounded);
          const { data, scales } = quantizeWeights(
            { values: matrix, dims: [matrix.length / columns, columns] },
            1,
            { type: "int8", symmetric: true },
          );
          rounded.forEach((value, index) =>
            expect(value + 0).toBe(
              Math.fround((data[index] ?? 0) * (scales[index % columns] ?? 0)) + 0,
            ),
          );
        },
      ),
    );
  });
});
