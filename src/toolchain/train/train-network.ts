// Trains dense layers and their input layer on soft targets and labels. It uses shuffled
// mini-batches, Adam, and a learning rate with warm-up and cosine decay. The same seed gives the
// same weights.

import { seededRandom, shuffle } from "../seeded-random.ts";
import { Adam } from "./adam.ts";
import type { DenseLayer } from "./dense-layers.ts";
import { type ActivationRange, createGradientStep, type Gradients } from "./gradient-step.ts";
import type { InputLayer } from "./input-layer.ts";

export interface TrainTargets {
  /**
   * [n, outputs]; probabilities softened by the temperature, or target values for the loss
   * `squares`.
   */
  readonly softTargets: Float32Array;
  readonly outputs: number;
  /**
   * One label for each sample, or -1. For labeled samples, the soft target has weight `alpha` and
   * the label 1 - `alpha`.
   */
  readonly labels?: Int32Array | undefined;
}

export interface TrainOptions {
  readonly epochs: number;
  readonly seed: number;
  readonly batchSize?: number | undefined;
  /** Peak learning rate of the run. */
  readonly learningRate?: number | undefined;
  /** Probability that a unit of the last hidden layer is dropped. */
  readonly dropout?: number | undefined;
  readonly weightDecay?: number | undefined;
  readonly loss?: "cross-entropy" | "squares" | undefined;
  /** Temperature of the soft targets. */
  readonly temperature?: number | undefined;
  readonly alpha?: number | undefined;
  /**
   * Range of each layer's input. Their presence turns on training with INT8 weights and UINT8
   * inputs (fake-quantize.ts).
   */
  readonly activationRanges?: readonly ActivationRange[] | undefined;
  readonly onProgress?: ((progress: TrainProgress) => void) | undefined;
}

export interface TrainProgress {
  readonly done: number;
  /** Number of batches in all epochs. */
  readonly total: number;
  /** Mean loss of the current epoch so far. */
  readonly loss: number;
}

/** Share of the steps in which the learning rate rises. */
const WARMUP_SHARE = 0.05;

/**
 * @param layers training changes them in place
 * @returns mean loss of the last epoch
 * @throws RangeError if the targets do not match the samples
 */
export async function trainNetwork(
  input: InputLayer,
  layers: readonly DenseLayer[],
  targets: TrainTargets,
  options: TrainOptions,
): Promise<number> {
  const { epochs, dropout = 0, onProgress = () => {} } = options;
  const { sampleCount, width } = input;
  requireMatchingTargets(targets, sampleCount);
  if (sampleCount === 0 || layers.length === 0)
    throw new RangeError("Training needs at least one sample and one layer.");
  const batchSize = Math.min(options.batchSize ?? 512, sampleCount);
  const hasDropoutMask = dropout > 0 && layers.length > 1;
  const gradientStep = await createGradientStep({
    batchSize,
    loss: options.loss ?? "cross-entropy",
    temperature: options.temperature ?? 1,
    activationRanges: options.activationRanges,
    hasDropoutMask,
  });
  const updateLayers = createLayerUpdate(layers, options.weightDecay ?? 0);
  const random = seededRandom(options.seed);
  const order = Uint32Array.from({ length: sampleCount }, (_, sample) => sample);
  const rows = new Float32Array(batchSize * width);
  const hiddenWidth = layers.at(-1)?.inputs ?? 1;
  const mask = new Float32Array(batchSize * (hasDropoutMask ? hiddenWidth : 1)).fill(1);
  const batchCount = Math.ceil(sampleCount / batchSize);
  const total = epochs * batchCount;
  let epochLoss = 0;
  try {
    for (let epoch = 0, done = 0; epoch < epochs; epoch++) {
      shuffle(order, random);
      epochLoss = 0;
      for (let batch = 0; batch < batchCount; batch++, done++) {
        const samples = takeBatch(order, batch * batchSize, batchSize);
        input.forward(samples, rows, random);
        if (hasDropoutMask) drawDropoutMask(mask, dropout, random);
        const gradients = await gradientStep.run(layers, {
          rows,
          dropoutMask: mask,
          ...weightTargets(samples, targets, options.alpha ?? 0.5),
        });
        const learningRate = learningRateAt(done / total, options.learningRate ?? 1e-3);
        updateLayers(gradients, learningRate);
        input.backward?.(gradients.rows, learningRate);
        epochLoss += gradients.loss / batchCount;
        onProgress({ done: done + 1, total, loss: (epochLoss * batchCount) / (batch + 1) });
      }
    }
  } finally {
    gradientStep.dispose();
  }
  return epochLoss;
}

function requireMatchingTargets(
  { softTargets, outputs, labels }: TrainTargets,
  sampleCount: number,
): void {
  if (
    softTargets.length !== sampleCount * outputs ||
    (labels !== undefined && labels.length !== sampleCount)
  )
    throw new RangeError(
      `Got ${softTargets.length / outputs} soft targets and ${labels?.length ?? "no"} labels for ${sampleCount} samples.`,
    );
}

/** Creates an optimizer for each layer. Biases have no weight decay. */
function createLayerUpdate(
  layers: readonly DenseLayer[],
  weightDecay: number,
): (gradients: Gradients, learningRate: number) => void {
  const optimizers = layers.map(({ weights, bias }) => ({
    weights: new Adam(weights, weightDecay),
    bias: new Adam(bias),
  }));
  return (gradients, learningRate) =>
    optimizers.forEach((optimizer, position) => {
      optimizer.weights.step(gradients.weights[position] ?? new Float32Array(), learningRate);
      optimizer.bias.step(gradients.biases[position] ?? new Float32Array(), learningRate);
    });
}

/** Scales the remaining units, so that the expected sum stays the same. */
function drawDropoutMask(mask: Float32Array, dropout: number, random: () => number): void {
  for (let unit = 0; unit < mask.length; unit++)
    mask[unit] = random() < dropout ? 0 : 1 / (1 - dropout);
}

/**
 * Fills the last batch from the front of the order, so that one compiled step serves every batch.
 */
function takeBatch(order: Uint32Array, start: number, batchSize: number): Uint32Array {
  return start + batchSize <= order.length
    ? order.subarray(start, start + batchSize)
    : Uint32Array.of(
        ...order.subarray(start),
        ...order.subarray(0, start + batchSize - order.length),
      );
}

/** Multiplies each target row by its weight. */
function weightTargets(
  samples: Uint32Array,
  { softTargets, outputs, labels }: TrainTargets,
  alpha: number,
): { readonly softTargets: Float32Array; readonly hardTargets: Float32Array } {
  const weightedTargets = new Float32Array(samples.length * outputs);
  const hardTargets = new Float32Array(samples.length * outputs);
  samples.forEach((sample, position) => {
    const label = labels?.[sample] ?? -1;
    const weight = label < 0 ? 1 : alpha;
    const [from, to] = [sample * outputs, position * outputs];
    for (let index = 0; index < outputs; index++)
      weightedTargets[to + index] = weight * (softTargets[from + index] ?? 0);
    if (label >= 0) hardTargets[to + label] = 1 - alpha;
  });
  return { softTargets: weightedTargets, hardTargets };
}

/** @param done share of the steps, from 0 to 1 */
export function learningRateAt(done: number, peakRate: number): number {
  return (
    (peakRate * Math.min(1, (done + 1e-9) / WARMUP_SHARE) * (1 + Math.cos(Math.PI * done))) / 2
  );
}
