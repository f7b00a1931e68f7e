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
const table = () => randomEmbeddings(ROWS, WIDTH, 1, seededRandom(1));
const all = (count: number) => Uint32Array.from({ length: count }, (_, sample) => sample);
const sampleArbitrary = fc
  .array(fc.integer({ min: 0, max: ROWS - 1 }), { minLength: 1, maxLength: 6 })
  .map((ids) => Int32Array.from(ids));

function forward(
  samples: readonly Int32Array[],
  options: Parameters<typeof createEmbeddingBag>[3] = {},
  own = table(),
) {
  const layer = createEmbeddingBag(packBags(samples), own, WIDTH, options);
  const rows = new Float32Array(samples.length * WIDTH);
  layer.forward(all(samples.length), rows, seededRandom(3));
  return { layer, rows };
}

describe("embedding bag", () => {
  it("sums the features' rows over the root of their number, padding left out", () => {
    fc.assert(
      fc.property(fc.array(sampleArbitrary, { minLength: 1, maxLength: 4 }), (samples) => {
        const own = table();
        const { rows } = forward(samples, {}, own);
        samples.forEach((ids, sample) => {
          const features = ids.filter((id) => id !== 0);
          for (let column = 0; column < WIDTH; column++) {
            const sum = features.reduce((total, id) => total + (own[id * WIDTH + column] ?? 0), 0);
            expect(rows[sample * WIDTH + column]).toBeCloseTo(
              sum / Math.sqrt(Math.max(1, features.length)),
              4,
            );
          }
        });
      }),
    );
  });

  it("learns along the gradient: what is asked for comes nearer, and what no sample has stays", () => {
    const own = table();
    const before = own.slice();
    const samples = [Int32Array.of(1, 2, 2), Int32Array.of(3)];
    const { layer, rows } = forward(samples, {}, own);
    layer.backward?.(rows, 0.01); // the gradient of half the rows' squares
    const after = forward(samples, {}, own).rows;
    const squares = (values: Float32Array) => values.reduce((sum, one) => sum + one * one, 0);
    expect(squares(after)).toBeLessThan(squares(rows));
    expect(own.subarray(4 * WIDTH)).toEqual(before.subarray(4 * WIDTH));
    expect([...own.subarray(0, WIDTH)]).toEqual([0, 0, 0]);
  });

  it("drops features at random, and never all of them", () => {
    const many = Array.from({ length: 50 }, () => Int32Array.of(1, 2, 3, 4, 5));
    const { rows } = forward(many, { dropout: 0.9 });
    const kinds = new Set(
      many.map((_, sample) => rows.subarray(sample * WIDTH, (sample + 1) * WIDTH).join()),
    );
    expect(kinds.size).toBeGreaterThan(5);
    expect(kinds).not.toContain("0,0,0");
  });
});

describe("fakeQuantizeColumns", () => {
  it("rounds as the quantiser does", () => {
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
