import { describe, expect, it } from "vitest";
import { argmax } from "../../../src/toolchain/argmax.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { forwardLayers } from "../../../src/toolchain/train/dense-layers.ts";
import { trainDense } from "../../../src/toolchain/train/train-dense.ts";
import type { TrainProgress } from "../../../src/toolchain/train/train-network.ts";

const OUTPUTS = 3;

/** Creates clusters that are not linearly separable, with features of very different sizes. */
function createClusters(count: number, seed: number) {
  const random = seededRandom(seed);
  const labels = Int32Array.from({ length: count }, (_, sample) => sample % OUTPUTS);
  const rows = new Float32Array(count * 2);
  const softTargets = new Float32Array(count * OUTPUTS);
  labels.forEach((label, sample) => {
    const side = random() < 0.5 ? -1 : 1;
    rows[2 * sample] = 1_000 + 100 * (side * label + 0.3 * (random() - 0.5));
    rows[2 * sample + 1] = 0.01 * (random() - 0.5);
    softTargets[sample * OUTPUTS + label] = 1;
  });
  return { features: { rows, width: 2 }, labels, softTargets };
}

const computeAccuracy = (logits: Float32Array, labels: Int32Array) =>
  labels.filter(
    (label, sample) => argmax(logits.subarray(sample * OUTPUTS, (sample + 1) * OUTPUTS)) === label,
  ).length / labels.length;

describe("trainDense", () => {
  it("solves a task that needs a hidden layer, on features of any size", async () => {
    const { features, labels, softTargets } = createClusters(600, 1);
    const layers = await trainDense(
      features,
      { softTargets, outputs: OUTPUTS },
      { epochs: 60, seed: 1, batchSize: 64, learningRate: 0.02, hidden: [16] },
    );
    const validation = createClusters(300, 2);
    expect(
      computeAccuracy(forwardLayers(layers, validation.features.rows), validation.labels),
    ).toBeGreaterThan(0.98);
    const linear = await trainDense(
      features,
      { softTargets, outputs: OUTPUTS },
      { epochs: 60, seed: 1, batchSize: 64, learningRate: 0.02 },
    );
    expect(computeAccuracy(forwardLayers(linear, features.rows), labels)).toBeLessThan(0.9);
  });

  it("depends only on the seed", async () => {
    const { features, softTargets } = createClusters(90, 1);
    const train = async (seed: number) =>
      await trainDense(
        features,
        { softTargets, outputs: OUTPUTS },
        { epochs: 2, seed, batchSize: 32, hidden: [4], dropout: 0.2 },
      );
    const first = await train(1);
    expect(await train(1)).toEqual(first);
    expect(await train(2)).not.toEqual(first);
  });
});

describe("the loss of trainDense", () => {
  it("weights labels against soft targets by alpha", async () => {
    const { features, labels, softTargets } = createClusters(300, 1);
    const wrongLabels = labels.map((label) => (label + 1) % OUTPUTS);
    const train = async (alpha: number) =>
      await trainDense(
        features,
        { softTargets, outputs: OUTPUTS, labels: wrongLabels },
        { epochs: 40, seed: 1, batchSize: 64, learningRate: 0.02, hidden: [16], alpha },
      );
    expect(computeAccuracy(forwardLayers(await train(0.9), features.rows), labels)).toBeGreaterThan(
      0.98,
    );
    expect(
      computeAccuracy(forwardLayers(await train(0.1), features.rows), wrongLabels),
    ).toBeGreaterThan(0.98);
  });

  it("fits numbers with the loss `squares`", async () => {
    const { features } = createClusters(300, 1);
    const expected = Float32Array.from(
      { length: 300 },
      (_, sample) => (features.rows[2 * sample] ?? 0) / 100 - 10,
    );
    const layers = await trainDense(
      features,
      { softTargets: expected, outputs: 1 },
      { epochs: 80, seed: 1, batchSize: 64, learningRate: 0.05, loss: "squares" },
    );
    const errors = forwardLayers(layers, features.rows).map((value, sample) =>
      Math.abs(value - (expected[sample] ?? 0)),
    );
    expect(Math.max(...errors)).toBeLessThan(0.05);
  });
});

describe("trainDense", () => {
  it("reports its progress with the loss", async () => {
    const { features, softTargets } = createClusters(90, 1);
    const progress: TrainProgress[] = [];
    await trainDense(
      features,
      { softTargets, outputs: OUTPUTS },
      { epochs: 2, seed: 1, batchSize: 40, onProgress: (event) => progress.push(event) },
    );
    expect(progress).toMatchObject([1, 2, 3, 4, 5, 6].map((done) => ({ done, total: 6 })));
    for (const { loss } of progress) expect(loss).toBeGreaterThan(0);
  });

  it("rejects a number of targets that differs from the samples", async () => {
    await expect(
      trainDense(
        { rows: new Float32Array(4), width: 2 },
        { softTargets: new Float32Array(3), outputs: 1 },
        { epochs: 1, seed: 1 },
      ),
    ).rejects.toThrow(RangeError);
  });
});
