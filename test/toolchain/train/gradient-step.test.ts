// The gradients that training follows, held to differences of the loss computed in plain JavaScript.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fakeQuantizeColumns } from "../../../src/toolchain/train/fake-quantize.ts";
import {
  type BatchInputs,
  createGradientStep,
  type GradientStepOptions,
} from "../../../src/toolchain/train/gradient-step.ts";
import {
  type DenseLayer,
  forwardLayers,
  initDenseLayers,
} from "../../../src/toolchain/train/dense-layers.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";

const BATCH = 3;

interface Case {
  readonly layers: DenseLayer[];
  readonly batch: BatchInputs;
}

function madeUp(widths: readonly number[], seed: number): Case {
  const random = seededRandom(seed);
  const numbers = (length: number) => Float32Array.from({ length }, () => 2 * random() - 1);
  const outputs = widths.at(-1) ?? 0;
  return {
    layers: initDenseLayers(widths, random),
    batch: {
      rows: numbers(BATCH * (widths[0] ?? 0)),
      softTargets: numbers(BATCH * outputs).map(Math.abs),
      hardTargets: numbers(BATCH * outputs).map(Math.abs),
      dropoutMask: new Float32Array(BATCH).fill(1),
    },
  };
}

/** The loss as it is written in the literature, in FP64. */
function lossOf(
  { layers, batch }: Case,
  { loss, temperature }: Pick<GradientStepOptions, "loss" | "temperature">,
): number {
  const logits = forwardLayers(layers, batch.rows);
  const width = logits.length / BATCH;
  let sum = 0;
  for (let row = 0; row < BATCH; row++) {
    const own = [...logits.subarray(row * width, (row + 1) * width)];
    const logSum = (by: number) =>
      Math.log(own.reduce((total, logit) => total + Math.exp(logit / by), 0));
    own.forEach((logit, column) => {
      const [soft, hard] = [
        batch.softTargets[row * width + column] ?? 0,
        batch.hardTargets[row * width + column] ?? 0,
      ];
      sum +=
        loss === "squares"
          ? (logit - soft) ** 2
          : -(temperature ** 2) * soft * (logit / temperature - logSum(temperature)) -
            hard * (logit - logSum(1));
    });
  }
  return sum / BATCH;
}

/** The slope of the loss by one number, from its differences; undefined at a bend, which a ReLU makes. */
function slopeOf(
  one: Case,
  numbers: Float32Array,
  index: number,
  options: GradientStepOptions,
): number | undefined {
  const step = 2e-3;
  const value = numbers[index] ?? 0;
  const at = (moved: number) => {
    numbers[index] = moved;
    return lossOf(one, options);
  };
  const [below, here, above] = [at(value - step), at(value), at(value + step)];
  numbers[index] = value;
  return Math.abs(above - 2 * here + below) > step / 50 ? undefined : (above - below) / (2 * step);
}

describe("gradient step", () => {
  it.each([
    { loss: "cross-entropy", temperature: 1 },
    { loss: "cross-entropy", temperature: 3 },
    { loss: "squares", temperature: 1 },
  ] as const)(
    "gives the loss and its slopes by weights, biases and rows: $loss, temperature $temperature",
    async ({ loss, temperature }) => {
      const options: GradientStepOptions = {
        batchSize: BATCH,
        loss,
        temperature,
        hasDropoutMask: false,
      };
      const step = await createGradientStep(options);
      await fc.assert(
        fc.asyncProperty(
          fc.integer(),
          fc.constantFrom([4, 3], [4, 5, 3], [2, 6, 4, 2]),
          async (seed, widths) => {
            const one = madeUp(widths, seed);
            const gradients = await step.run(one.layers, one.batch);
            expect(gradients.loss).toBeCloseTo(lossOf(one, options), 3);
            const pairs = [
              [one.batch.rows, gradients.rows],
              ...one.layers.flatMap(({ weights, bias }, position) => [
                [weights, gradients.weights[position]],
                [bias, gradients.biases[position]],
              ]),
            ] as [Float32Array, Float32Array][];
            const compared = pairs.flatMap(([numbers, slopes]) =>
              [...slopes].map((slope, index) => ({
                slope,
                wanted: slopeOf(one, numbers, index, options),
              })),
            );
            const straight = compared.filter(({ wanted }) => wanted !== undefined);
            expect(straight.length).toBeGreaterThan(compared.length / 2);
            expect(
              straight.filter(({ slope, wanted = 0 }) => Math.abs(slope - wanted) > 0.02),
            ).toEqual([]);
          },
        ),
        { numRuns: 50 },
      );
      step.dispose();
    },
  );

  it("rounds weights and inputs where ranges are given, and lets gradients through", async () => {
    const one = madeUp([4, 5, 3], 1);
    const ranges = [
      { low: -1, high: 1 },
      { low: 0, high: 2 },
    ];
    const step = await createGradientStep({
      batchSize: BATCH,
      loss: "squares",
      temperature: 1,
      hasDropoutMask: false,
      activationRanges: ranges,
    });
    const { loss, weights } = await step.run(one.layers, one.batch);
    step.dispose();
    const rounded = one.layers.map((layer) => {
      const own = new Float32Array(layer.weights.length);
      fakeQuantizeColumns(layer.weights, layer.outputs, own);
      return { ...layer, weights: own };
    });
    expect(
      Math.abs(loss - lossOf({ ...one, layers: rounded }, { loss: "squares", temperature: 1 })),
    ).toBeLessThan(0.02);
    expect(weights.every((gradient) => gradient.some((slope) => slope !== 0))).toBe(true);
  });

  it("leaves masked units out", async () => {
    const one = madeUp([4, 5, 3], 1);
    const step = await createGradientStep({
      batchSize: BATCH,
      loss: "squares",
      temperature: 1,
      hasDropoutMask: true,
    });
    const mask = Float32Array.from({ length: BATCH * 5 }, (_, unit) => (unit % 5 === 2 ? 0 : 1));
    const { weights } = await step.run(one.layers, { ...one.batch, dropoutMask: mask });
    step.dispose();
    expect([...(weights[1] ?? [])].slice(6, 9)).toEqual([0, 0, 0]);
    expect(weights[1]?.some((slope) => slope !== 0)).toBe(true);
  });
});
