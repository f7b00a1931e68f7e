// Computes loss and gradients of dense layers on one batch. @jax-js/jax differentiates
// automatically and compiles to WebAssembly. It reaches 12 GMAC/s on one core, and machines with
// fused multiply-add give the same bits. Alternatives: JavaScript loops reach 1.2 GMAC/s, the last
// release of TensorFlow.js is of 2024, and onnxruntime-training is not on npm.

import { defaultDevice, init, jit, lax, nn, numpy as np, valueAndGrad } from "@jax-js/jax";
import type { DenseLayer } from "./dense-layers.ts";
import { WEIGHT_QUANT_MAX } from "./fake-quantize.ts";

export interface GradientStepOptions {
  /** Number of rows in a batch. */
  readonly batchSize: number;
  /**
   * `cross-entropy` trains logits on target probabilities; `squares` trains outputs on target
   * values.
   */
  readonly loss: "cross-entropy" | "squares";
  /**
   * Divides the logits in the soft loss, which is multiplied by the temperature's square (Hinton et
   * al. 2015).
   */
  readonly temperature: number;
  /** Range of each layer's input; present for quantization-aware training (fake-quantize.ts). */
  readonly activationRanges?: readonly ActivationRange[] | undefined;
  /** Whether `BatchInputs` has a mask for the last hidden layer. */
  readonly hasDropoutMask: boolean;
}

/** Interval that the UINT8 steps cover; it contains 0. */
export interface ActivationRange {
  readonly low: number;
  readonly high: number;
}

export interface BatchInputs {
  /** [batch, inputs] */
  readonly rows: Float32Array;
  /** [batch, outputs]; each row is multiplied by its sample's weight. */
  readonly softTargets: Float32Array;
  /**
   * [batch, outputs]; weighted one-hot labels. Their loss has no temperature, and only
   * `cross-entropy` uses them.
   */
  readonly hardTargets: Float32Array;
  /** [batch, hidden]; factors of the last hidden layer's units. */
  readonly dropoutMask: Float32Array;
}

export interface Gradients {
  /** Mean over the batch. */
  readonly loss: number;
  readonly rows: Float32Array;
  readonly weights: readonly Float32Array[];
  readonly biases: readonly Float32Array[];
}

type TrainableParameters = { rows: np.Array; weights: np.Array[]; biases: np.Array[] };
type BatchTargets = { soft: np.Array; hard: np.Array; mask: np.Array };

const ACTIVATION_QUANT_MAX = 255;

/** Compiles a gradient step for one batch size. */
export async function createGradientStep(options: GradientStepOptions): Promise<{
  run(layers: readonly DenseLayer[], batch: BatchInputs): Promise<Gradients>;
  dispose(): void;
}> {
  await init("wasm");
  defaultDevice("wasm");
  const differentiate = jit(
    valueAndGrad((parameters: TrainableParameters, targets: BatchTargets) =>
      computeLoss(parameters, targets, options),
    ),
  );

  return {
    async run(layers, { rows, softTargets, hardTargets, dropoutMask }) {
      const { batchSize } = options;
      const matrix = (values: Float32Array) =>
        copyToArray(values).reshape([batchSize, values.length / batchSize]);
      const parameters: TrainableParameters = {
        rows: matrix(rows),
        weights: layers.map(({ weights, inputs, outputs }) =>
          copyToArray(weights).reshape([inputs, outputs]),
        ),
        biases: layers.map(({ bias }) => copyToArray(bias)),
      };
      const [loss, gradients] = differentiate(parameters, {
        soft: matrix(softTargets),
        hard: matrix(hardTargets),
        mask: matrix(dropoutMask),
      });
      return {
        loss: (await readFloats(loss))[0] ?? Number.NaN,
        rows: await readFloats(gradients.rows),
        weights: await readAll(gradients.weights),
        biases: await readAll(gradients.biases),
      };
    },
    dispose: () => differentiate.dispose(),
  };
}

/** Copies the values, because jax reads them later, when training may have changed them. */
const copyToArray = (values: Float32Array): np.Array => np.array(new Float32Array(values));

async function readAll(arrays: readonly np.Array[]): Promise<Float32Array[]> {
  const values: Float32Array[] = [];
  for (const array of arrays) values.push(await readFloats(array));
  return values;
}

/** Reads an array and releases it, because jax arrays are consumed by their first use. */
async function readFloats(array: np.Array): Promise<Float32Array> {
  const data = await array.data();
  if (!(data instanceof Float32Array)) throw new TypeError("Expected an FP32 array from jax.");
  return data;
}

function computeLoss(
  { rows, weights, biases }: TrainableParameters,
  { soft, hard, mask }: BatchTargets,
  { batchSize, loss, temperature, activationRanges, hasDropoutMask }: GradientStepOptions,
): np.Array {
  let values = rows;
  weights.forEach((layerWeights, position) => {
    const range = activationRanges?.[position];
    const isLast = position === weights.length - 1;
    if (isLast && hasDropoutMask && position > 0) values = values.mul(mask.ref);
    const bias = biases[position];
    const x = range === undefined ? values : fakeQuantizeActivation(values, range);
    const sums = np.dot(x, range === undefined ? layerWeights : fakeQuantizeWeights(layerWeights));
    const outputs = bias === undefined ? sums : sums.add(bias);
    values = isLast ? outputs : nn.relu(outputs);
  });
  mask.dispose();
  if (loss === "squares") {
    hard.dispose();
    return np
      .square(values.sub(soft))
      .sum()
      .mul(1 / batchSize);
  }
  const softLoss = nn
    .logSoftmax(values.ref.mul(1 / temperature), -1)
    .mul(soft)
    .sum()
    .mul(temperature ** 2);
  return softLoss.add(nn.logSoftmax(values, -1).mul(hard).sum()).mul(-1 / batchSize);
}

/** Rounds to the steps of UINT8. Values outside the range have no gradient. */
function fakeQuantizeActivation(values: np.Array, { low, high }: ActivationRange): np.Array {
  const scale = (high - low) / ACTIVATION_QUANT_MAX;
  return straightThroughEstimator(np.clip(values, low, high), (clipped) =>
    np.round(clipped.mul(1 / scale)).mul(scale),
  );
}

function fakeQuantizeWeights(weights: np.Array): np.Array {
  const scales = np.maximum(
    lax.stopGradient(np.max(np.abs(weights.ref), 0)).mul(1 / WEIGHT_QUANT_MAX),
    1e-12,
  );
  return straightThroughEstimator(weights, (exact) => np.round(exact.div(scales.ref)).mul(scales));
}

/** Returns the rounded values with the gradient of the exact ones. */
function straightThroughEstimator(
  values: np.Array,
  round: (values: np.Array) => np.Array,
): np.Array {
  const error = lax.stopGradient(round(values.ref).sub(values.ref));
  return values.add(error);
}
