import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { softmax } from "../../../src/cascade/calibration.ts";
import {
  fitTemperature,
  fitVectorScaling,
  type LabeledLogits,
} from "../../../src/toolchain/calibrate/logit-scaling.ts";
import { createRandom } from "../../bench/lib/random.ts";

/** Draws labels with the softmax probabilities of the weighted and shifted logits. */
function drawLogits(
  count: number,
  weights: readonly number[],
  biases: readonly number[],
): LabeledLogits[] {
  const { next } = createRandom(3);
  return Array.from({ length: count }, () => {
    const logits = Float32Array.from(weights, () => 6 * next());
    const probabilities = softmax(
      Float64Array.from(
        logits,
        (logit, index) => logit * (weights[index] ?? 1) + (biases[index] ?? 0),
      ),
      1,
    );
    let remaining = next();
    const label = probabilities.findIndex((probability) => (remaining -= probability) < 0);
    return { logits, label };
  });
}

const uniformScaling = (weight: number) =>
  [Array.from({ length: 4 }, () => weight), [0, 0, 0, 0]] as const;
const computeMeanLoss = (
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
    const fitted = fitTemperature(drawLogits(4_000, ...uniformScaling(1 / temperature)));
    expect(Math.abs(fitted / temperature - 1)).toBeLessThan(0.06);
  });

  it("ignores samples without a right label", () => {
    const rows = drawLogits(500, ...uniformScaling(1));
    const noise = rows.map(({ logits }) => ({ logits: logits.map((logit) => -logit), label: -1 }));
    expect(fitTemperature([...rows, ...noise])).toBe(fitTemperature(rows));
  });

  it("minimizes the loss locally (property)", () => {
    const row = fc.record({
      logits: fc
        .array(fc.float({ min: -9, max: 9, noNaN: true }), { minLength: 3, maxLength: 3 })
        .map((logits) => Float32Array.from(logits)),
      label: fc.nat(2),
    });
    fc.assert(
      fc.property(fc.array(row, { minLength: 5, maxLength: 40 }), (rows) => {
        const inverse = 1 / fitTemperature(rows);
        const lossAt = (weight: number) =>
          computeMeanLoss(rows, [weight, weight, weight], [0, 0, 0]);
        expect(lossAt(inverse)).toBeLessThanOrEqual(
          Math.min(lossAt(Math.min(20, inverse * 1.01)), lossAt(Math.max(0.05, inverse * 0.99))) +
            1e-6,
        );
      }),
    );
  });
});

describe("fitVectorScaling", () => {
  it("recovers weights and biases that no temperature can express", () => {
    const [weights, biases] = [
      [1, 0.5, 1.5, 1],
      [0, 1, -1, 0.5],
    ];
    const rows = drawLogits(4_000, weights, biases);
    const temperature = fitTemperature(rows);
    const vector = fitVectorScaling(rows, temperature);
    expect(computeMeanLoss(rows, vector.weights, vector.biases)).toBeLessThan(
      computeMeanLoss(rows, ...uniformScaling(1 / temperature)) - 0.05,
    );
    expect(computeMeanLoss(rows, vector.weights, vector.biases)).toBeLessThan(
      computeMeanLoss(rows, weights, biases) + 0.005,
    );
  });

  it("stays at the temperature without labeled samples", () => {
    expect(fitVectorScaling([], 2)).toEqual({ weights: [], biases: [] });
    const unlabeled = [{ logits: Float32Array.of(1, 2), label: -1 }];
    expect(fitVectorScaling(unlabeled, 2)).toEqual({ weights: [0.5, 0.5], biases: [0, 0] });
  });
});
