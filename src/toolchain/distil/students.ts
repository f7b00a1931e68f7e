// The students of one distillation: trained on a teacher's answers, written in FP32 and in INT8, and one of the same size that
// has the labels alone.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Candidate } from "../judge/judge.ts";
import { writeModel } from "../onnx/model-file.ts";
import type { Targets, TrainOptions, TrainProgress } from "../train/train-network.ts";
import { fineTuneForInt8, findRanges, quantised } from "./int8-student.ts";
import type { Student } from "./student.ts";

export interface StudentsOptions {
  readonly seed: number;
  readonly epochs: number;
  /** Units of the one hidden layer; 0 for none. */
  readonly hidden: number;
  readonly loss?: TrainOptions["loss"];
  readonly temperature: number;
  /** Of the teacher's answer, where a sample has a label: the label counts 1 - alpha. */
  readonly alpha: number;
  readonly batch: number;
  readonly rate: number;
  readonly dropout: number;
  /** Epochs of training on with numbers rounded; none where it is 0. */
  readonly int8Epochs: number;
}

export type DistilProgress = {
  readonly step: "teacher" | "student" | "student in INT8" | "labels alone";
  readonly done: number;
  readonly of: number;
  readonly loss?: number;
};
export type OnProgress = (progress: DistilProgress) => void;

export interface Students {
  /** `fp32`, `int8`, and if it was asked for `int8-aware`. */
  readonly students: readonly Candidate[];
  /** `labels-fp32` and `labels-int8`; none where no sample has a label. */
  readonly labelsAlone: readonly Candidate[];
}

/** At which rounded training goes on, by the rate of the training before. */
const INT8_RATE = 0.1;
/** With fewer, a student on labels alone has not learnt what it could: its epochs are more, and its batches smaller. */
const LEAST_STEPS = 3_000;
const LABELS_BATCH = 128;

export interface Lessons {
  readonly student: Student;
  readonly targets: Targets;
  /** One that has learnt nothing yet, of the same size; its samples all have labels. */
  readonly labelsAlone: { readonly student: Student; readonly labels: Int32Array } | undefined;
  /** What ranges are found on. */
  readonly calibration: readonly NamedTensors[];
}

/** @throws not_quantisable, session_failed */
export async function trainStudents(
  { student, targets, labelsAlone, calibration }: Lessons,
  runtime: Runtime,
  options: StudentsOptions,
  onProgress: OnProgress,
): Promise<Students> {
  const { int8Epochs, hidden: _hidden, ...training } = options;
  const showing = (step: DistilProgress["step"]) => ({
    onProgress: (progress: TrainProgress) => onProgress({ step, ...progress }),
  });
  await student.train(targets, { ...training, ...showing("student") });
  const { candidates: students, ranges } = await written(student, "");
  if (int8Epochs > 0) {
    await fineTuneForInt8(student, targets, ranges, {
      ...training,
      epochs: int8Epochs,
      rate: INT8_RATE * options.rate,
      ...showing("student in INT8"),
    });
    students.push({ name: "int8-aware", graph: quantised(student.graph(), ranges) });
  }
  if (labelsAlone === undefined) return { students, labelsAlone: [] };

  const { labels, student: pupil } = labelsAlone;
  const soft = new Float32Array(labels.length * targets.outputs);
  labels.forEach((label, sample) => (soft[sample * targets.outputs + label] = 1));
  const batch = Math.min(options.batch, LABELS_BATCH, labels.length);
  const epochs = Math.max(
    options.epochs,
    Math.ceil(LEAST_STEPS / Math.ceil(labels.length / batch)),
  );
  await pupil.train(
    { soft, outputs: targets.outputs },
    { ...training, epochs, batch, temperature: 1, ...showing("labels alone") },
  );
  return { students, labelsAlone: (await written(pupil, "labels-")).candidates };

  async function written(one: Student, prefix: string) {
    const model = one.graph();
    const ranges = await findRanges(runtime, model, calibration);
    const candidates: Candidate[] = [
      { name: `${prefix}fp32`, graph: writeModel(model) },
      { name: `${prefix}int8`, graph: quantised(model, ranges) },
    ];
    return { candidates, ranges };
  }
}
