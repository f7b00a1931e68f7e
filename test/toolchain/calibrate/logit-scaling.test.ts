import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { softmax } from "../../../src/cascade/calibration.ts";
import {
  fitTemperature,
  fitVectorScaling,
  type LabeledLogits,
} from "../../../src/toolchain/calibrate/logit-scaling.ts";
import { createRandom } from "../../bench/lib/random.ts";

/** Labels drawn with the probabilities that the logits say, once weighed and shifted so. */
function drawLogits(
  count: number,
  weights: readonly number[],
  biases: readonly number[],
): LabeledLogits[] {
  const { next } = createRandom(3);
  return Array.from({ length: count }, () => {
    const logits = Float32Array.from(weights, () => 6 * next());
    const chances = softmax(
      Float64Array.from(
        logits,
        (logit, index) => logit * (weights[index] ?? 1) + (biases[index] ?? 0),
      ),
      1,
    );
    let left = next();
    return { logits, label: chances.findIndex((chance) => (left -= chance) < 0) };
  });
}

const even = (weight: number) => [Array.from({ length: 4 }, () => weight), [0, 0, 0, 0]] as const;
const loss = (
  rows: readonly LabeledLogits[],
  weights: readonly number[],
  biases: readonly number[],
) =>
  rows.reduce(
    (sum, { logits, label }) =>
      sum -
      Math.log(
        softmax(
          Float64Array.from(
            logits,
            (logit, index) => logit * (weights[index] ?? 1) + (biases[index] ?? 0),
          ),
          1,
        )[label] ?? 0,
      ),
    0,
  ) / rows.length;

describe("fitTemperature", () => {
  it.each([0.5, 1, 3])("finds the temperature %f that labels were drawn with", (temperature) => {
    expect(fitTemperature(drawLogits(4_000, ...even(1 / temperature))) / temperature).toBeCloseTo(
      1,
      0.9,
    );
  });

  it("leaves out what has no right label", () => {
    const rows = drawLogits(500, ...even(1));
    const noise = rows.map(({ logits }) => ({ logits: logits.map((one) => -one), label: -1 }));
    expect(fitTemperature([...rows, ...noise])).toBe(fitTemperature(rows));
  });

  it("has no lower loss on either side (property)", () => {
    const row = fc.record({
      logits: fc
        .array(fc.float({ min: -9, max: 9, noNaN: true }), { minLength: 3, maxLength: 3 })
        .map((logits) => Float32Array.from(logits)),
      label: fc.nat(2),
    });
    fc.assert(
      fc.property(fc.array(row, { minLength: 5, maxLength: 40 }), (rows) => {
        const inverse = 1 / fitTemperature(rows);
        const at = (one: number) => loss(rows, [one, one, one], [0, 0, 0]);
        expect(at(inverse)).toBeLessThanOrEqual(
          Math.min(at(Math.min(20, inverse * 1.01)), at(Math.max(0.05, inverse * 0.99))) + 1e-6,
        );
      }),
    );
  });
});

describe("fitVectorScaling", () => {
  it("finds what weights and biases make of labels that one temperature cannot", () => {
    const [weights, biases] = [
      [1, 0.5, 1.5, 1],
      [0, 1, -1, 0.5],
    ];
    const rows = drawLogits(4_000, weights, biases);
    const temperature = fitTemperature(rows);
    const vector = fitVectorScaling(rows, temperature);
    expect(loss(rows, vector.weights, vector.biases)).toBeLessThan(
      loss(rows, ...even(1 / temperature)) - 0.05,
    );
    expect(loss(rows, vector.weights, vector.biases)).toBeLessThan(
      loss(rows, weights, biases) + 0.005,
    );
  });

  it("stays at the temperature where nothing tells labels apart", () => {
    const { weights, biases } = fitVectorScaling([], 2);
    expect([weights, biases]).toEqual([[], []]);
    const unlabelled = [{ logits: Float32Array.of(1, 2), label: -1 }];
    expect(fitVectorScaling(unlabelled, 2)).toEqual({ weights: [0.5, 0.5], biases: [0, 0] });
  });
});
