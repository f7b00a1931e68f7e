// Trains the students of a distillation on a teacher's answers and writes them in FP32 and INT8. A
// baseline of the same size learns from the labels alone.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { CandidateGraph } from "../evaluate/evaluate-candidates.ts";
import { serializeModel } from "../onnx/model-file.ts";
import type { TrainTargets, TrainOptions, TrainProgress } from "../train/train-network.ts";
import { fineTuneForInt8, findActivationRanges, quantizeStudent } from "./int8-student.ts";
import type { Student } from "./student.ts";

export interface DistillOptions {
  readonly seed: number;
  readonly epochs: number;
  /** Width of the hidden layer; 0 means no hidden layer. */
  readonly hidden: number;
  readonly loss?: TrainOptions["loss"];
  readonly temperature: number;
  /** Weight of the teacher's answer for labeled samples; the label has weight 1 - alpha. */
  readonly alpha: number;
  readonly batchSize: number;
  readonly learningRate: number;
  readonly dropout: number;
  /** Epochs of fine-tuning with the rounding of INT8; 0 skips it. */
  readonly int8Epochs: number;
}

export type DistillProgress = {
  readonly step: "teacher" | "student" | "int8-fine-tuning" | "label-only-baseline";
  readonly done: number;
  readonly total: number;
  readonly loss?: number;
};
export type OnDistillProgress = (progress: DistillProgress) => void;

export interface DistilledStudents {
  /** `fp32` and `int8`, and `int8-aware` if fine-tuning is on. */
  readonly students: readonly CandidateGraph[];
  /** `labels-fp32` and `labels-int8`; empty if no sample has a label. */
  readonly labelOnlyBaselines: readonly CandidateGraph[];
}

/** Learning rate of the INT8 fine-tuning, relative to the training before it. */
const INT8_LEARNING_RATE_FACTOR = 0.1;
/**
 * Minimum number of steps of the baseline. With fewer it is undertrained, so it gets more epochs
 * and smaller batches.
 */
const MIN_BASELINE_STEPS = 3_000;
const BASELINE_BATCH_SIZE = 128;

export interface StudentTraining {
  readonly student: Student;
  readonly targets: TrainTargets;
  /** Untrained student of the same size, on the labeled samples only. */
  readonly labelOnlyBaseline:
    | { readonly student: Student; readonly labels: Int32Array }
    | undefined;
  readonly rangeSamples: readonly NamedTensors[];
}

/** @throws not_quantizable, session_failed */
export async function trainStudents(
  { student, targets, labelOnlyBaseline, rangeSamples }: StudentTraining,
  runtime: Runtime,
  options: DistillOptions,
  onProgress: OnDistillProgress,
): Promise<DistilledStudents> {
  const { int8Epochs, hidden: _hidden, ...training } = options;
  const reportAs = (step: DistillProgress["step"]) => ({
    onProgress: (progress: TrainProgress) => onProgress({ step, ...progress }),
  });
  await student.train(targets, { ...training, ...reportAs("student") });
  const { candidates: students, ranges } = await writeGraphs(student, "");
  if (int8Epochs > 0) {
    await fineTuneForInt8(student, targets, ranges, {
      ...training,
      epochs: int8Epochs,
      learningRate: INT8_LEARNING_RATE_FACTOR * options.learningRate,
      ...reportAs("int8-fine-tuning"),
    });
    students.push({ name: "int8-aware", graph: quantizeStudent(student.exportGraph(), ranges) });
  }
  if (labelOnlyBaseline === undefined) return { students, labelOnlyBaselines: [] };

  const { labels, student: baseline } = labelOnlyBaseline;
  const softTargets = new Float32Array(labels.length * targets.outputs);
  labels.forEach((label, sample) => (softTargets[sample * targets.outputs + label] = 1));
  const batchSize = Math.min(options.batchSize, BASELINE_BATCH_SIZE, labels.length);
  const epochs = Math.max(
    options.epochs,
    Math.ceil(MIN_BASELINE_STEPS / Math.ceil(labels.length / batchSize)),
  );
  await baseline.train(
    { softTargets, outputs: targets.outputs },
    { ...training, epochs, batchSize, temperature: 1, ...reportAs("label-only-baseline") },
  );
  return { students, labelOnlyBaselines: (await writeGraphs(baseline, "labels-")).candidates };

  async function writeGraphs(trained: Student, prefix: string) {
    const model = trained.exportGraph();
    const ranges = await findActivationRanges(runtime, model, rangeSamples);
    const candidates: CandidateGraph[] = [
      { name: `${prefix}fp32`, graph: serializeModel(model) },
      { name: `${prefix}int8`, graph: quantizeStudent(model, ranges) },
    ];
    return { candidates, ranges };
  }
}
