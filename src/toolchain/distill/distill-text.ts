// Distills a text teacher into students on hashed n-grams.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { TextInput } from "../../tasks/task.ts";
import { createNgramHasher, type HashedNgramsConfig } from "../../tasks/text/hashed-ngrams.ts";
import { packBags } from "../train/embedding-bag.ts";
import { augmentTexts, splitWords } from "./augment-texts.ts";
import { findSimilarWords } from "./similar-words.ts";
import { softenLogits } from "./soften-logits.ts";
import { createTextStudent } from "./student.ts";
import { queryTeacher, type QueryTeacherOptions } from "./teacher.ts";
import type { TextTeacher } from "./text-teacher.ts";
import {
  type OnDistillProgress,
  type DistilledStudents,
  type DistillOptions,
  type StudentTraining,
  trainStudents,
} from "./train-students.ts";

export interface TextSample {
  readonly text: string;
  /**
   * Undefined for an unlabeled text. A label that the project does not have marks an out-of-scope
   * text, for which only the teacher's answer counts.
   */
  readonly label?: string | undefined;
}

export interface DistillTextOptions extends DistillOptions {
  readonly features: HashedNgramsConfig;
  /** Length of an embedding. */
  readonly embeddingDims: number;
  /** Probability that a feature of a text is dropped, drawn for each batch. */
  readonly featureDropout: number;
  /** Number of varied copies of each text. */
  readonly augmentedCopies: number;
  /** Folder that caches the teacher's answers. */
  readonly cacheFolder?: string | undefined;
}

export interface DistilledTextStudents extends DistilledStudents {
  /** Number of texts that the student was trained on, including varied copies. */
  readonly textCount: number;
}

/**
 * Number of texts for each additional empty text. Empty texts teach the student to prefer no label
 * without words.
 */
const TEXTS_PER_EMPTY_TEXT = 750;
const MAX_RANGE_SAMPLES = 512;

/**
 * @param labels labels of the project, in the order of the logits
 * @throws session_failed, not_quantizable
 */
export async function distillText(
  teacher: TextTeacher,
  samples: readonly TextSample[],
  labels: readonly string[],
  runtime: Runtime,
  options: DistillTextOptions,
  onProgress: OnDistillProgress = () => {},
): Promise<DistilledTextStudents> {
  const query = {
    cacheFolder: options.cacheFolder,
    onProgress: (done: number, total: number) => onProgress({ step: "teacher", done, total }),
  };
  const texts = await collectTrainingTexts(teacher, samples, options, query);
  const logits = await queryTeacher(
    teacher,
    texts.map((text): TextInput => ({ kind: "text", text })),
    query,
  );
  const training = createTraining(texts, logits, samples, labels, options);
  return {
    ...(await trainStudents(training, runtime, options, onProgress)),
    textCount: texts.length,
  };
}

/** Returns the texts of the samples, followed by their varied copies. */
async function collectTrainingTexts(
  teacher: TextTeacher,
  samples: readonly TextSample[],
  { augmentedCopies, seed }: DistillTextOptions,
  query: QueryTeacherOptions,
): Promise<string[]> {
  const similarWords =
    augmentedCopies === 0
      ? undefined
      : await findSimilarWords(
          teacher,
          [...new Set(samples.flatMap(({ text }) => splitWords(text)))],
          teacher.vocabularyWords,
          query,
        );
  return [
    ...samples.map(({ text }) => text),
    ...augmentTexts(samples, augmentedCopies, seed, similarWords),
  ];
}

/** @param logits the teacher's, one row for each text; softened in place */
function createTraining(
  texts: readonly string[],
  logits: Float32Array,
  samples: readonly TextSample[],
  labels: readonly string[],
  options: DistillTextOptions,
): StudentTraining {
  const { features, embeddingDims, featureDropout, temperature } = options;
  const outputs = labels.length;
  const count = texts.length + Math.ceil(texts.length / TEXTS_PER_EMPTY_TEXT);
  const softTargets = new Float32Array(count * outputs).fill(1 / outputs);
  softTargets.set(softenLogits(logits, outputs, temperature));
  const positions = new Map(labels.map((label, position) => [label, position]));
  const labelPositions = new Int32Array(count).fill(-1);
  samples.forEach(
    ({ label }, sample) =>
      (labelPositions[sample] = label === undefined ? -1 : (positions.get(label) ?? -1)),
  );

  const hashNgrams = createNgramHasher(features);
  const ids = Array.from({ length: count }, (_, sample) => hashNgrams(texts[sample] ?? ""));
  const createStudent = (trainingIds: readonly Int32Array[]) =>
    createTextStudent(
      { bags: packBags(trainingIds), buckets: features.buckets, embeddingDims, featureDropout },
      outputs,
      options,
    );
  const labeledIds = ids.filter((_, sample) => (labelPositions[sample] ?? -1) >= 0);
  const rangeStride = Math.ceil(samples.length / MAX_RANGE_SAMPLES);
  return {
    student: createStudent(ids),
    targets: { softTargets, outputs, labels: labelPositions },
    labelOnlyBaseline:
      labeledIds.length === 0
        ? undefined
        : {
            student: createStudent(labeledIds),
            labels: labelPositions.filter((label) => label >= 0),
          },
    rangeSamples: ids
      .slice(0, samples.length)
      .filter((_, sample) => sample % rangeStride === 0)
      .map(toTensors),
  };
}

const toTensors = (ids: Int32Array): NamedTensors => ({
  ids: { datatype: "INT32", shape: [1, ids.length], data: ids },
});
