import { describe, expect, it } from "vitest";
import { argmax } from "../../../src/toolchain/argmax.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { forwardLayers } from "../../../src/toolchain/train/dense-layers.ts";
import { trainDense } from "../../../src/toolchain/train/train-dense.ts";
import type { TrainProgress } from "../../../src/toolchain/train/train-network.ts";

const OUTPUTS = 3;

/** Points around three centres that no line parts from each other two by two; features of very different sizes. */
function clusters(count: number, seed: number) {
  const random = seededRandom(seed);
  const labels = Int32Array.from({ length: count }, (_, sample) => sample % OUTPUTS);
  const rows = new Float32Array(count * 2);
  const soft = new Float32Array(count * OUTPUTS);
  labels.forEach((label, sample) => {
    const side = random() < 0.5 ? -1 : 1;
    rows[2 * sample] = 1_000 + 100 * (side * label + 0.3 * (random() - 0.5));
    rows[2 * sample + 1] = 0.01 * (random() - 0.5);
    soft[sample * OUTPUTS + label] = 1;
  });
  return { features: { rows, width: 2 }, labels, soft };
}

const accuracy = (logits: Float32Array, labels: Int32Array) =>
  labels.filter(
    (label, sample) => argmax(logits.subarray(sample * OUTPUTS, (sample + 1) * OUTPUTS)) === label,
  ).length / labels.length;

describe("trainDense", () => {
  it("learns what needs a hidden layer, on features of any size", async () => {
    const { features, labels, soft } = clusters(600, 1);
    const layers = await trainDense(
      features,
      { softTargets: soft, outputs: OUTPUTS },
      { epochs: 60, seed: 1, batchSize: 64, learningRate: 0.02, hidden: [16] },
    );
    const others = clusters(300, 2);
    expect(accuracy(forwardLayers(layers, others.features.rows), others.labels)).toBeGreaterThan(
      0.98,
    );
    const straight = await trainDense(
      features,
      { softTargets: soft, outputs: OUTPUTS },
      { epochs: 60, seed: 1, batchSize: 64, learningRate: 0.02 },
    );
    expect(accuracy(forwardLayers(straight, features.rows), labels)).toBeLessThan(0.9);
  });

  it("gives the same weights for the same seed, and others for another", async () => {
    const { features, soft } = clusters(90, 1);
    const train = async (seed: number) =>
      await trainDense(
        features,
        { softTargets: soft, outputs: OUTPUTS },
        { epochs: 2, seed, batchSize: 32, hidden: [4], dropout: 0.2 },
      );
    const [first, second, other] = [await train(1), await train(1), await train(2)];
    expect(second).toEqual(first);
    expect(other).not.toEqual(first);
  });

  it("follows labels against soft targets as far as alpha says", async () => {
    const { features, labels, soft } = clusters(300, 1);
    const wrong = labels.map((label) => (label + 1) % OUTPUTS);
    const train = async (alpha: number) =>
      await trainDense(
        features,
        { softTargets: soft, outputs: OUTPUTS, labels: wrong },
        { epochs: 40, seed: 1, batchSize: 64, learningRate: 0.02, hidden: [16], alpha },
      );
    expect(accuracy(forwardLayers(await train(0.9), features.rows), labels)).toBeGreaterThan(0.98);
    expect(accuracy(forwardLayers(await train(0.1), features.rows), wrong)).toBeGreaterThan(0.98);
  });

  it("meets numbers with the loss of squares", async () => {
    const { features } = clusters(300, 1);
    const wanted = Float32Array.from(
      { length: 300 },
      (_, sample) => (features.rows[2 * sample] ?? 0) / 100 - 10,
    );
    const layers = await trainDense(
      features,
      { softTargets: wanted, outputs: 1 },
      { epochs: 80, seed: 1, batchSize: 64, learningRate: 0.05, loss: "squares" },
    );
    const errors = forwardLayers(layers, features.rows).map((value, sample) =>
      Math.abs(value - (wanted[sample] ?? 0)),
    );
    expect(Math.max(...errors)).toBeLessThan(0.05);
  });

  it("tells how far it is", async () => {
    const { features, soft } = clusters(90, 1);
    const seen: TrainProgress[] = [];
    await trainDense(
      features,
      { softTargets: soft, outputs: OUTPUTS },
      { epochs: 2, seed: 1, batchSize: 40, onProgress: (progress) => seen.push(progress) },
    );
    expect(seen.map(({ done, total: of }) => [done, of])).toEqual([
      [1, 6],
      [2, 6],
      [3, 6],
      [4, 6],
      [5, 6],
      [6, 6],
    ]);
    expect(seen.every(({ loss }) => loss > 0)).toBe(true);
  });

  it("refuses targets of another number of samples", async () => {
    await expect(
      trainDense(
        { rows: new Float32Array(4), width: 2 },
        { softTargets: new Float32Array(3), outputs: 1 },
        { epochs: 1, seed: 1 },
      ),
    ).rejects.toThrow(RangeError);
  });
});
