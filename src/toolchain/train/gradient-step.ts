// Loss and gradients of dense layers on one batch, by @jax-js/jax: automatic differentiation, compiled to WebAssembly. It runs
// 12 GMAC/s on one core, and machines with fused multiply-add give the same bits. (Loops in JavaScript: 1.2 GMAC/s. TensorFlow.js
// was last released in 2024, and onnxruntime-training is not on npm.)

import { defaultDevice, init, jit, lax, nn, numpy as np, valueAndGrad } from "@jax-js/jax";
import { WEIGHT_QUANT_MAX } from "./fake-quantize.ts";
import type { DenseLayer } from "./dense-layers.ts";

export interface GradientStepOptions {
  /** Rows of a batch. */
  readonly batchSize: number;
  /** `cross-entropy`: targets are probabilities, logits are learnt. `squares`: targets are the outputs. */
  readonly loss: "cross-entropy" | "squares";
  /** By which logits are divided for the soft targets; their loss is multiplied by its square (Hinton et al. 2015). */
  readonly temperature: number;
  /** The ranges of each layer's input, for layers that are to be quantised (fake-quantize.ts). */
  readonly activationRanges?: readonly ActivationRange[] | undefined;
  /** Whether `BatchInputs` has a mask for the last hidden layer. */
  readonly hasDropoutMask: boolean;
}

/** What UINT8 steps are spread over; holds 0. */
export interface ActivationRange {
  readonly low: number;
  readonly high: number;
}

export interface BatchInputs {
  /** [batch, inputs] */
  readonly rows: Float32Array;
  /** [batch, outputs]; each row times the weight of its sample. */
  readonly softTargets: Float32Array;
  /** The same of labels, whose loss knows no temperature; only of `cross-entropy`. */
  readonly hardTargets: Float32Array;
  /** [batch, hidden]: what units are multiplied by. */
  readonly dropoutMask: Float32Array;
}

export interface Gradients {
  /** Sum over the batch by `batch`. */
  readonly loss: number;
  readonly rows: Float32Array;
  readonly weights: readonly Float32Array[];
  readonly biases: readonly Float32Array[];
}

type TrainableParameters = { rows: np.Array; weights: np.Array[]; biases: np.Array[] };
type BatchTargets = { soft: np.Array; hard: np.Array; mask: np.Array };

const ACTIVATION_QUANT_MAX = 255;

/** @returns a function for batches of one size: compiled once */
export async function createGradientStep(options: GradientStepOptions): Promise<{
  run(layers: readonly DenseLayer[], batch: BatchInputs): Promise<Gradients>;
  dispose(): void;
}> {
  await init("wasm");
  defaultDevice("wasm");
  const differentiate = jit(
    valueAndGrad((learnt: TrainableParameters, given: BatchTargets) =>
      computeLoss(learnt, given, options),
    ),
  );

  return {
    async run(layers, { rows, softTargets: soft, hardTargets: hard, dropoutMask: mask }) {
      const { batchSize: batch } = options;
      const matrix = (values: Float32Array) =>
        copyToArray(values).reshape([batch, values.length / batch]);
      const learnt: TrainableParameters = {
        rows: matrix(rows),
        weights: layers.map(({ weights, inputs, outputs }) =>
          copyToArray(weights).reshape([inputs, outputs]),
        ),
        biases: layers.map(({ bias }) => copyToArray(bias)),
      };
      const [loss, gradients] = differentiate(learnt, {
        soft: matrix(soft),
        hard: matrix(hard),
        mask: matrix(mask),
      });
      const values = {
        loss: (await readFloats(loss))[0] ?? Number.NaN,
        rows: await readFloats(gradients.rows),
        weights: await readAll(gradients.weights),
        biases: await readAll(gradients.biases),
      };
      return values;
    },
    dispose: () => differentiate.dispose(),
  };
}

/** Of a copy: numbers are read when they are needed, and may have changed by then. */
const copyToArray = (values: Float32Array): np.Array => np.array(new Float32Array(values));

async function readAll(arrays: readonly np.Array[]): Promise<Float32Array[]> {
  const values: Float32Array[] = [];
  for (const array of arrays) values.push(await readFloats(array));
  return values;
}

/** Reading an array gives it up. */
async function readFloats(array: np.Array): Promise<Float32Array> {
  const data = await array.data();
  if (!(data instanceof Float32Array)) throw new TypeError("an array of other numbers than FP32");
  return data;
}

function computeLoss(
  { rows, weights, biases }: TrainableParameters,
  { soft, hard, mask }: BatchTargets,
  {
    batchSize: batch,
    loss,
    temperature,
    activationRanges: ranges,
    hasDropoutMask: isMasked,
  }: GradientStepOptions,
): np.Array {
  let values = rows;
  weights.forEach((own, position) => {
    const range = ranges?.[position];
    const isLast = position === weights.length - 1;
    if (isLast && isMasked && position > 0) values = values.mul(mask.ref);
    const bias = biases[position];
    const x = range === undefined ? values : fakeQuantizeActivation(values, range);
    const sums = np.dot(x, range === undefined ? own : fakeQuantizeWeights(own));
    const outputs = bias === undefined ? sums : sums.add(bias);
    values = isLast ? outputs : nn.relu(outputs);
  });
  mask.dispose();
  if (loss === "squares") {
    hard.dispose();
    return np
      .square(values.sub(soft))
      .sum()
      .mul(1 / batch);
  }
  const softLoss = nn
    .logSoftmax(values.ref.mul(1 / temperature), -1)
    .mul(soft)
    .sum()
    .mul(temperature ** 2);
  return softLoss.add(nn.logSoftmax(values, -1).mul(hard).sum()).mul(-1 / batch);
}

/** What is out of range has no gradient. */
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
  return straightThroughEstimator(weights, (own) => np.round(own.div(scales.ref)).mul(scales));
}

/** The rounded values, with the gradient of what they are rounded from. */
function straightThroughEstimator(
  values: np.Array,
  round: (values: np.Array) => np.Array,
): np.Array {
  const error = lax.stopGradient(round(values.ref).sub(values.ref));
  return values.add(error);
}
