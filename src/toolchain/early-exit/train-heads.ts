// Trains an exit head for each place of a graph on what the graph makes there of samples; the graph itself stays as it is.

import { LOGITS_OUTPUT, softmax } from "../../cascade/calibration.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { EncodedSample } from "../evaluate/evaluation-set.ts";
import { type Model, serializeModel } from "../onnx/model-file.ts";
import { selectInputs } from "../select-inputs.ts";
import { trainDense } from "../train/train-dense.ts";
import type { CutPoint } from "./find-cuts.ts";
import { type ExitHead, buildFeatureGraph } from "./stages.ts";

/** `labels`: the samples'; `answers`: the whole graph's, softened; `both`: as much of the one as of the other. */
export const TRAINING_TARGETS = ["labels", "answers", "both"] as const;
export type TrainingTarget = (typeof TRAINING_TARGETS)[number];

export interface TrainHeadsOptions {
  readonly targets: TrainingTarget;
  /** Labels that there are. */
  readonly classCount: number;
  readonly seed: number;
  readonly epochs: number;
  /** Parts of an image on a side, whose means a head reads. */
  readonly grid: number;
  /** Units of a hidden layer; 0 for none. */
  readonly hidden: number;
  /** That softens the whole graph's answers. */
  readonly temperature: number;
  readonly onProgress?: (what: string, done: number, of: number) => void;
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
 * @param questions to learn from; answers are learnt from all of them, labels from those that have one
 * @returns in the places' order
 * @throws session_failed, not_cuttable
 */
export async function trainHeads(
  runtime: Runtime,
  model: Model,
  places: readonly CutPoint[],
  questions: readonly EncodedSample[],
  options: TrainHeadsOptions,
): Promise<ExitHead[]> {
  const { targets: kind, classCount: classes, onProgress = () => {} } = options;
  const used = kind === "labels" ? questions.filter(({ label }) => label >= 0) : questions;
  const inputs = used.map((question) => question.inputs);
  const { graph, outputs } = buildFeatureGraph(model, places, options.grid);
  const features = await computeHeadFeatures(runtime, graph, outputs, inputs, (done) =>
    onProgress("features", done, inputs.length),
  );

  const soft = kind === "labels" ? new Float32Array(used.length * classes) : await softAnswers();
  const labels = kind === "answers" ? {} : { labels: Int32Array.from(used, ({ label }) => label) };
  const heads: ExitHead[] = [];
  for (const [position, { value }] of places.entries()) {
    const layers = await trainDense(
      features[position] ?? { rows: new Float32Array(), width: 0 },
      { softTargets: soft, outputs: classes, ...labels },
      {
        epochs: options.epochs,
        seed: options.seed,
        hidden: options.hidden === 0 ? [] : [options.hidden],
        dropout: DROPOUT,
        weightDecay: WEIGHT_DECAY,
        temperature: options.temperature,
        alpha: kind === "labels" ? 0 : 0.5,
        onProgress: ({ done, total: of }) => onProgress(`head at ${value}`, done, of),
      },
    );
    heads.push({ layers, grid: options.grid });
  }
  return heads;

  async function softAnswers(): Promise<Float32Array> {
    const [logits] = await computeHeadFeatures(
      runtime,
      serializeModel(model),
      [LOGITS_OUTPUT],
      inputs,
      (done) => onProgress("answers of the whole graph", done, inputs.length),
    );
    return softenLogits(logits?.rows ?? new Float32Array(), classes, options.temperature);
  }
}

interface HeadFeatures {
  readonly rows: Float32Array;
  readonly width: number;
}

/** One run a sample: a graph in 8 bits may answer otherwise with others beside it. */
async function computeHeadFeatures(
  runtime: Runtime,
  graph: Uint8Array,
  names: readonly string[],
  samples: readonly NamedTensors[],
  onRun: (done: number) => void,
): Promise<HeadFeatures[]> {
  const session = await runtime.createSession(graph);
  try {
    const found: HeadFeatures[] = [];
    for (const [sample, tensors] of samples.entries()) {
      const made = await session.run(selectInputs(session, tensors));
      names.forEach((name, position) => {
        const { data } = expectFloat32Tensor(name, made[name], 2);
        const own = (found[position] ??= {
          rows: new Float32Array(samples.length * data.length),
          width: data.length,
        });
        own.rows.set(data, sample * own.width);
      });
      onRun(sample + 1);
    }
    return found;
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
