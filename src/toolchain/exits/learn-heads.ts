// Trains an exit head for each place of a graph on what the graph makes there of samples; the graph itself stays as it is.

import { LOGITS, softmax } from "../../cascade/calibration.ts";
import { asFloat32, type NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Question } from "../judge/exam.ts";
import { type Model, writeModel } from "../onnx/model-file.ts";
import { takenInputs } from "../taken-inputs.ts";
import { trainDense } from "../train/train-dense.ts";
import type { CutPoint } from "./find-cuts.ts";
import { type ExitHead, featuresGraph } from "./stages.ts";

/** `labels`: the samples'; `answers`: the whole graph's, softened; `both`: as much of the one as of the other. */
export const TARGETS = ["labels", "answers", "both"] as const;
export type TargetKind = (typeof TARGETS)[number];

export interface LearnOptions {
  readonly targets: TargetKind;
  /** Labels that there are. */
  readonly classes: number;
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

export const DEFAULT_LEARNING = {
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
export async function learnHeads(
  runtime: Runtime,
  model: Model,
  places: readonly CutPoint[],
  questions: readonly Question[],
  options: LearnOptions,
): Promise<ExitHead[]> {
  const { targets: kind, classes, onProgress = () => {} } = options;
  const used = kind === "labels" ? questions.filter(({ label }) => label >= 0) : questions;
  const inputs = used.map((question) => question.inputs);
  const { graph, outputs } = featuresGraph(model, places, options.grid);
  const features = await rowsOf(runtime, graph, outputs, inputs, (done) =>
    onProgress("features", done, inputs.length),
  );

  const soft = kind === "labels" ? new Float32Array(used.length * classes) : await softAnswers();
  const labels = kind === "answers" ? {} : { labels: Int32Array.from(used, ({ label }) => label) };
  const heads: ExitHead[] = [];
  for (const [position, { value }] of places.entries()) {
    const layers = await trainDense(
      features[position] ?? { rows: new Float32Array(), width: 0 },
      { soft, outputs: classes, ...labels },
      {
        epochs: options.epochs,
        seed: options.seed,
        hidden: options.hidden === 0 ? [] : [options.hidden],
        dropout: DROPOUT,
        weightDecay: WEIGHT_DECAY,
        temperature: options.temperature,
        alpha: kind === "labels" ? 0 : 0.5,
        onProgress: ({ done, of }) => onProgress(`head at ${value}`, done, of),
      },
    );
    heads.push({ layers, grid: options.grid });
  }
  return heads;

  async function softAnswers(): Promise<Float32Array> {
    const [logits] = await rowsOf(runtime, writeModel(model), [LOGITS], inputs, (done) =>
      onProgress("answers of the whole graph", done, inputs.length),
    );
    return softened(logits?.rows ?? new Float32Array(), classes, options.temperature);
  }
}

interface Rows {
  readonly rows: Float32Array;
  readonly width: number;
}

/** One run a sample: a graph in 8 bits may answer otherwise with others beside it. */
async function rowsOf(
  runtime: Runtime,
  graph: Uint8Array,
  names: readonly string[],
  samples: readonly NamedTensors[],
  onRun: (done: number) => void,
): Promise<Rows[]> {
  const session = await runtime.createSession(graph);
  try {
    const found: Rows[] = [];
    for (const [sample, tensors] of samples.entries()) {
      const made = await session.run(takenInputs(session, tensors));
      names.forEach((name, position) => {
        const { data } = asFloat32(name, made[name], 2);
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

function softened(logits: Float32Array, classes: number, temperature: number): Float32Array {
  const soft = new Float32Array(logits.length);
  for (let start = 0; start < logits.length; start += classes)
    soft.set(softmax(logits.subarray(start, start + classes), temperature), start);
  return soft;
}
