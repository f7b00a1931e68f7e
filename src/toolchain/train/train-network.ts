// Trains dense layers, and the input layer in front of them, on soft targets and labels: mini-batches in random order, Adam, a
// rate that warms up and falls as a cosine. The same seed gives the same weights.

import { seededRandom, shuffle } from "../seeded-random.ts";
import { Adam } from "./adam.ts";
import { type ActivationRange, createGradientStep } from "./gradient-step.ts";
import type { InputLayer } from "./input-layer.ts";
import type { DenseLayer } from "./dense-layers.ts";

export interface TrainTargets {
  /** [n, outputs]: probabilities, softened by the temperature, or with the loss `squares` numbers to be met. */
  readonly softTargets: Float32Array;
  readonly outputs: number;
  /** One per sample, -1 for none; none at all by default. Where a sample has a label, its soft target counts `alpha` and the label 1 - `alpha`. */
  readonly labels?: Int32Array | undefined;
}

export interface TrainOptions {
  readonly epochs: number;
  readonly seed: number;
  readonly batchSize?: number | undefined;
  /** The largest of the run. */
  readonly learningRate?: number | undefined;
  /** Share of the units of the last hidden layer that a batch is learnt without. */
  readonly dropout?: number | undefined;
  readonly weightDecay?: number | undefined;
  readonly loss?: "cross-entropy" | "squares" | undefined;
  /** Of the soft targets. */
  readonly temperature?: number | undefined;
  readonly alpha?: number | undefined;
  /** Of each layer's input: trains layers, with weights in INT8 and inputs in UINT8 (fake-quantize.ts). */
  readonly activationRanges?: readonly ActivationRange[] | undefined;
  readonly onProgress?: ((progress: TrainProgress) => void) | undefined;
}

export interface TrainProgress {
  readonly done: number;
  /** Batches, of all epochs. */
  readonly total: number;
  /** Mean over the epoch so far. */
  readonly loss: number;
}

/** Share of the steps in which the rate rises. */
const WARMUP_SHARE = 0.05;

/**
 * @param layers are changed
 * @returns the mean loss of the last epoch
 * @throws RangeError for targets that are not one a sample
 */
export async function trainNetwork(
  input: InputLayer,
  layers: readonly DenseLayer[],
  targets: TrainTargets,
  options: TrainOptions,
): Promise<number> {
  const {
    epochs,
    seed,
    learningRate: rate = 1e-3,
    dropout = 0,
    weightDecay = 0,
    loss = "cross-entropy",
    temperature = 1,
    onProgress = () => {},
  } = options;
  const { sampleCount: samples, width } = input;
  if (
    targets.softTargets.length !== samples * targets.outputs ||
    (targets.labels !== undefined && targets.labels.length !== samples)
  )
    throw new RangeError(
      `${targets.softTargets.length / targets.outputs} targets and ${targets.labels?.length ?? "no"} labels of ${samples} samples`,
    );
  if (samples === 0 || layers.length === 0)
    throw new RangeError("there is nothing to train, or nothing to train on");
  const batch = Math.min(options.batchSize ?? 512, samples);
  const hidden = layers.length > 1 ? (layers.at(-1)?.inputs ?? 1) : 1;
  const isMasked = dropout > 0 && layers.length > 1;
  const step = await createGradientStep({
    batchSize: batch,
    loss,
    temperature,
    activationRanges: options.activationRanges,
    hasDropoutMask: isMasked,
  });
  const optimisers = layers.map(({ weights, bias }) => ({
    weights: new Adam(weights, weightDecay),
    bias: new Adam(bias),
  }));
  const random = seededRandom(seed);
  const order = Uint32Array.from({ length: samples }, (_, sample) => sample);
  const rows = new Float32Array(batch * width);
  const mask = new Float32Array(batch * (isMasked ? hidden : 1)).fill(1);
  const steps = Math.ceil(samples / batch);
  const of = epochs * steps;
  let epochLoss = 0;
  try {
    for (let epoch = 0, done = 0; epoch < epochs; epoch++) {
      shuffle(order, random);
      epochLoss = 0;
      for (let start = 0; start < samples; start += batch, done++) {
        const chosen = takeBatch(order, start, batch);
        input.forward(chosen, rows, random);
        if (isMasked)
          for (let unit = 0; unit < mask.length; unit++)
            mask[unit] = random() < dropout ? 0 : 1 / (1 - dropout);
        const gradients = await step.run(layers, {
          rows,
          dropoutMask: mask,
          ...weightTargets(chosen, targets, options.alpha ?? 0.5),
        });
        const now = learningRateAt(done / of, rate);
        optimisers.forEach((own, position) => {
          own.weights.step(gradients.weights[position] ?? new Float32Array(), now);
          own.bias.step(gradients.biases[position] ?? new Float32Array(), now);
        });
        input.backward?.(gradients.rows, now);
        epochLoss += gradients.loss / steps;
        onProgress({ done: done + 1, total: of, loss: (epochLoss * steps) / (start / batch + 1) });
      }
    }
  } finally {
    step.dispose();
  }
  return epochLoss;
}

/** As many samples each time, so that one compiled step does for all: the last batch is filled up from the front. */
function takeBatch(order: Uint32Array, start: number, batch: number): Uint32Array {
  return start + batch <= order.length
    ? order.subarray(start, start + batch)
    : Uint32Array.of(...order.subarray(start), ...order.subarray(0, start + batch - order.length));
}

/** Each row times what it counts. */
function weightTargets(
  samples: Uint32Array,
  { softTargets: soft, outputs, labels }: TrainTargets,
  alpha: number,
): { readonly softTargets: Float32Array; readonly hardTargets: Float32Array } {
  const own = new Float32Array(samples.length * outputs);
  const hard = new Float32Array(samples.length * outputs);
  samples.forEach((sample, position) => {
    const label = labels?.[sample] ?? -1;
    const weight = label < 0 ? 1 : alpha;
    const [from, to] = [sample * outputs, position * outputs];
    for (let index = 0; index < outputs; index++)
      own[to + index] = weight * (soft[from + index] ?? 0);
    if (label >= 0) hard[to + label] = 1 - alpha;
  });
  return { softTargets: own, hardTargets: hard };
}

/** @param done share of the steps */
export function learningRateAt(done: number, rate: number): number {
  return (rate * Math.min(1, (done + 1e-9) / WARMUP_SHARE) * (1 + Math.cos(Math.PI * done))) / 2;
}
