// The students of one distillation: trained on a teacher's answers, written in FP32 and in INT8, and one of the same size that
// has the labels alone.

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
  /** Units of the one hidden layer; 0 for none. */
  readonly hidden: number;
  readonly loss?: TrainOptions["loss"];
  readonly temperature: number;
  /** Of the teacher's answer, where a sample has a label: the label counts 1 - alpha. */
  readonly alpha: number;
  readonly batchSize: number;
  readonly learningRate: number;
  readonly dropout: number;
  /** Epochs of training on with numbers rounded; none where it is 0. */
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
  /** `fp32`, `int8`, and if it was asked for `int8-aware`. */
  readonly students: readonly CandidateGraph[];
  /** `labels-fp32` and `labels-int8`; none where no sample has a label. */
  readonly labelOnlyBaselines: readonly CandidateGraph[];
}

/** At which rounded training goes on, by the rate of the training before. */
const INT8_LEARNING_RATE_FACTOR = 0.1;
/** With fewer, a student on labels alone has not learnt what it could: its epochs are more, and its batches smaller. */
const MIN_BASELINE_STEPS = 3_000;
const BASELINE_BATCH_SIZE = 128;

export interface StudentTraining {
  readonly student: Student;
  readonly targets: TrainTargets;
  /** One that has learnt nothing yet, of the same size; its samples all have labels. */
  readonly labelOnlyBaseline:
    | { readonly student: Student; readonly labels: Int32Array }
    | undefined;
  /** What ranges are found on. */
  readonly rangeSamples: readonly NamedTensors[];
}

/** @throws not_quantizable, session_failed */
export async function trainStudents(
  { student, targets, labelOnlyBaseline: labelsAlone, rangeSamples: calibration }: StudentTraining,
  runtime: Runtime,
  options: DistillOptions,
  onProgress: OnDistillProgress,
): Promise<DistilledStudents> {
  const { int8Epochs, hidden: _hidden, ...training } = options;
  const showing = (step: DistillProgress["step"]) => ({
    onProgress: (progress: TrainProgress) => onProgress({ step, ...progress }),
  });
  await student.train(targets, { ...training, ...showing("student") });
  const { candidates: students, ranges } = await written(student, "");
  if (int8Epochs > 0) {
    await fineTuneForInt8(student, targets, ranges, {
      ...training,
      epochs: int8Epochs,
      learningRate: INT8_LEARNING_RATE_FACTOR * options.learningRate,
      ...showing("int8-fine-tuning"),
    });
    students.push({ name: "int8-aware", graph: quantizeStudent(student.exportGraph(), ranges) });
  }
  if (labelsAlone === undefined) return { students, labelOnlyBaselines: [] };

  const { labels, student: pupil } = labelsAlone;
  const soft = new Float32Array(labels.length * targets.outputs);
  labels.forEach((label, sample) => (soft[sample * targets.outputs + label] = 1));
  const batch = Math.min(options.batchSize, BASELINE_BATCH_SIZE, labels.length);
  const epochs = Math.max(
    options.epochs,
    Math.ceil(MIN_BASELINE_STEPS / Math.ceil(labels.length / batch)),
  );
  await pupil.train(
    { softTargets: soft, outputs: targets.outputs },
    { ...training, epochs, batchSize: batch, temperature: 1, ...showing("label-only-baseline") },
  );
  return { students, labelOnlyBaselines: (await written(pupil, "labels-")).candidates };

  async function written(one: Student, prefix: string) {
    const model = one.exportGraph();
    const ranges = await findActivationRanges(runtime, model, calibration);
    const candidates: CandidateGraph[] = [
      { name: `${prefix}fp32`, graph: serializeModel(model) },
      { name: `${prefix}int8`, graph: quantizeStudent(model, ranges) },
    ];
    return { candidates, ranges };
  }
}
