// Gradients of training, compared with finite differences of a loss in plain JavaScript.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import {
  type DenseLayer,
  forwardLayers,
  initDenseLayers,
} from "../../../src/toolchain/train/dense-layers.ts";
import { fakeQuantizeColumns } from "../../../src/toolchain/train/fake-quantize.ts";
import {
  type BatchInputs,
  createGradientStep,
  type GradientStepOptions,
} from "../../../src/toolchain/train/gradient-step.ts";
import { propertyRuns } from "../../support/property-runs.ts";

const BATCH = 3;

interface BatchCase {
  readonly layers: DenseLayer[];
  readonly batch: BatchInputs;
}

function createRandomCase(widths: readonly number[], seed: number): BatchCase {
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

/** Computes the loss by its definition in FP64. */
function computeExpectedLoss(
  { layers, batch }: BatchCase,
  { loss, temperature }: Pick<GradientStepOptions, "loss" | "temperature">,
): number {
  const logits = forwardLayers(layers, batch.rows);
  const width = logits.length / BATCH;
  let sum = 0;
  for (let row = 0; row < BATCH; row++) {
    const rowLogits = [...logits.subarray(row * width, (row + 1) * width)];
    const logSumExp = (divisor: number) =>
      Math.log(rowLogits.reduce((total, logit) => total + Math.exp(logit / divisor), 0));
    rowLogits.forEach((logit, column) => {
      const [soft, hard] = [
        batch.softTargets[row * width + column] ?? 0,
        batch.hardTargets[row * width + column] ?? 0,
      ];
      sum +=
        loss === "squares"
          ? (logit - soft) ** 2
          : -(temperature ** 2) * soft * (logit / temperature - logSumExp(temperature)) -
            hard * (logit - logSumExp(1));
    });
  }
  return sum / BATCH;
}

/** Estimates a partial derivative by finite differences; undefined near the kink of a ReLU. */
function estimateDerivative(
  batchCase: BatchCase,
  numbers: Float32Array,
  index: number,
  options: GradientStepOptions,
): number | undefined {
  const step = 2e-3;
  const value = numbers[index] ?? 0;
  const lossAt = (moved: number) => {
    numbers[index] = moved;
    return computeExpectedLoss(batchCase, options);
  };
  const [below, here, above] = [lossAt(value - step), lossAt(value), lossAt(value + step)];
  numbers[index] = value;
  return Math.abs(above - 2 * here + below) > step / 50 ? undefined : (above - below) / (2 * step);
}

describe("gradient step", () => {
  it.each([
    { loss: "cross-entropy", temperature: 1 },
    { loss: "cross-entropy", temperature: 3 },
    { loss: "squares", temperature: 1 },
  ] as const)(
    "computes the loss and its gradients by weights, biases and rows: $loss, temperature $temperature",
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
            const batchCase = createRandomCase(widths, seed);
            const gradients = await step.run(batchCase.layers, batchCase.batch);
            expect(gradients.loss).toBeCloseTo(computeExpectedLoss(batchCase, options), 3);
            const pairs = [
              [batchCase.batch.rows, gradients.rows],
              ...batchCase.layers.flatMap(({ weights, bias }, position) => [
                [weights, gradients.weights[position]],
                [bias, gradients.biases[position]],
              ]),
            ] as [Float32Array, Float32Array][];
            const compared = pairs.flatMap(([numbers, derivatives]) =>
              [...derivatives].map((derivative, index) => ({
                derivative,
                expected: estimateDerivative(batchCase, numbers, index, options),
              })),
            );
            const smooth = compared.filter(({ expected }) => expected !== undefined);
            expect(smooth.length).toBeGreaterThan(compared.length / 2);
            expect(
              smooth.filter(
                ({ derivative, expected = 0 }) => Math.abs(derivative - expected) > 0.02,
              ),
            ).toEqual([]);
          },
        ),
        { numRuns: propertyRuns(50) },
      );
      step.dispose();
    },
  );
});

describe("a gradient step with options", () => {
  it("rounds weights and inputs to the given ranges, without blocking gradients", async () => {
    const batchCase = createRandomCase([4, 5, 3], 1);
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
    const { loss, weights } = await step.run(batchCase.layers, batchCase.batch);
    step.dispose();
    const roundedLayers = batchCase.layers.map((layer) => {
      const roundedWeights = new Float32Array(layer.weights.length);
      fakeQuantizeColumns(layer.weights, layer.outputs, roundedWeights);
      return { ...layer, weights: roundedWeights };
    });
    expect(
      Math.abs(
        loss -
          computeExpectedLoss(
            { ...batchCase, layers: roundedLayers },
            { loss: "squares", temperature: 1 },
          ),
      ),
    ).toBeLessThan(0.02);
    for (const gradient of weights) expect(gradient.some((value) => value !== 0)).toBe(true);
  });

  it("gives masked units no gradient", async () => {
    const batchCase = createRandomCase([4, 5, 3], 1);
    const step = await createGradientStep({
      batchSize: BATCH,
      loss: "squares",
      temperature: 1,
      hasDropoutMask: true,
    });
    const mask = Float32Array.from({ length: BATCH * 5 }, (_, unit) => (unit % 5 === 2 ? 0 : 1));
    const { weights } = await step.run(batchCase.layers, { ...batchCase.batch, dropoutMask: mask });
    step.dispose();
    expect([...(weights[1] ?? [])].slice(6, 9)).toEqual([0, 0, 0]);
    expect(weights[1]?.some((value) => value !== 0)).toBe(true);
  });
});
