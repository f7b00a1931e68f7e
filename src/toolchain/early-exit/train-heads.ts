// Trains an exit head for each cut of a graph, on the features that the graph computes there. The graph itself is not changed.

import { LOGITS_OUTPUT, softmax } from "../../cascade/calibration.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { EncodedSample } from "../evaluate/evaluation-set.ts";
import { type Model, serializeModel } from "../onnx/model-file.ts";
import { selectInputs } from "../select-inputs.ts";
import { trainDense } from "../train/train-dense.ts";
import type { CutPoint } from "./find-cuts.ts";
import { type ExitHead, buildFeatureGraph } from "./stages.ts";

/** `labels` are the samples' labels; `answers` are the whole graph's softened answers; `both` weighs them equally. */
export const TRAINING_TARGETS = ["labels", "answers", "both"] as const;
export type TrainingTarget = (typeof TRAINING_TARGETS)[number];

export interface TrainHeadsOptions {
  readonly targets: TrainingTarget;
  /** Number of labels. */
  readonly classCount: number;
  readonly seed: number;
  readonly epochs: number;
  /** Number of image regions per side whose means a head reads. */
  readonly grid: number;
  /** Number of units in the hidden layer; 0 for no hidden layer. */
  readonly hidden: number;
  /** Temperature that softens the whole graph's answers. */
  readonly temperature: number;
  readonly onProgress?: (step: string, done: number, total: number) => void;
}

export const DEFAULT_HEAD_TRAINING = {
  seed: 1,
  epochs: 60,
  grid: 3,
  hidden: 128,
  temperature: 2,
} as const;

const DROPOUT = 0.1;
const WEIGHT_DECAY = 1e-3;

/**
 * @param samples training samples; heads learn answers from all of them, and labels from those that have one
 * @returns heads in the order of the cuts
 * @throws session_failed, not_cuttable
 */
export async function trainHeads(
  runtime: Runtime,
  model: Model,
  cuts: readonly CutPoint[],
  samples: readonly EncodedSample[],
  options: TrainHeadsOptions,
): Promise<ExitHead[]> {
  const { targets, classCount, onProgress = () => {} } = options;
  const used = targets === "labels" ? samples.filter(({ label }) => label >= 0) : samples;
  const inputs = used.map((sample) => sample.inputs);
  const { graph, outputs } = buildFeatureGraph(model, cuts, options.grid);
  const features = await computeHeadFeatures(runtime, graph, outputs, inputs, (done) =>
    onProgress("features", done, inputs.length),
  );

  const softTargets =
    targets === "labels"
      ? new Float32Array(used.length * classCount)
      : await computeSoftAnswers(runtime, model, inputs, options);
  const labels =
    targets === "answers" ? {} : { labels: Int32Array.from(used, ({ label }) => label) };
  const heads: ExitHead[] = [];
  for (const [position, { value }] of cuts.entries()) {
    const layers = await trainDense(
      features[position] ?? { rows: new Float32Array(), width: 0 },
      { softTargets, outputs: classCount, ...labels },
      {
        epochs: options.epochs,
        seed: options.seed,
        hidden: options.hidden === 0 ? [] : [options.hidden],
        dropout: DROPOUT,
        weightDecay: WEIGHT_DECAY,
        temperature: options.temperature,
        alpha: targets === "labels" ? 0 : 0.5,
        onProgress: ({ done, total }) => onProgress(`head at ${value}`, done, total),
      },
    );
    heads.push({ layers, grid: options.grid });
  }
  return heads;
}

async function computeSoftAnswers(
  runtime: Runtime,
  model: Model,
  inputs: readonly NamedTensors[],
  { classCount, temperature, onProgress = () => {} }: TrainHeadsOptions,
): Promise<Float32Array> {
  const [logits] = await computeHeadFeatures(
    runtime,
    serializeModel(model),
    [LOGITS_OUTPUT],
    inputs,
    (done) => onProgress("answers of the whole graph", done, inputs.length),
  );
  return softenLogits(logits?.rows ?? new Float32Array(), classCount, temperature);
}

interface HeadFeatures {
  readonly rows: Float32Array;
  readonly width: number;
}

/** Runs each sample alone, because a graph in 8 bits may give other results in a batch. */
async function computeHeadFeatures(
  runtime: Runtime,
  graph: Uint8Array,
  outputNames: readonly string[],
  samples: readonly NamedTensors[],
  onRun: (done: number) => void,
): Promise<HeadFeatures[]> {
  const session = await runtime.createSession(graph);
  try {
    const features: HeadFeatures[] = [];
    for (const [sample, tensors] of samples.entries()) {
      const outputs = await session.run(selectInputs(session, tensors));
      outputNames.forEach((name, position) => {
        const { data } = expectFloat32Tensor(name, outputs[name], 2);
        const feature = (features[position] ??= {
          rows: new Float32Array(samples.length * data.length),
          width: data.length,
        });
        feature.rows.set(data, sample * feature.width);
      });
      onRun(sample + 1);
    }
    return features;
  } finally {
    await session.dispose();
  }
}

function softenLogits(logits: Float32Array, classes: number, temperature: number): Float32Array {
  const soft = new Float32Array(logits.length);
  for (let start = 0; start < logits.length; start += classes)
    soft.set(softmax(logits.subarray(start, start + classes), temperature), start);
  return soft;
}
