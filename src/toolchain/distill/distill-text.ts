// Distils a teacher of texts into students on hashed n-grams.

import type { Runtime } from "../../runtime/runtime.ts";
import type { TextInput } from "../../tasks/task.ts";
import { createNgramHasher, type HashedNgramsConfig } from "../../tasks/text/hashed-ngrams.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { findSimilarWords } from "./similar-words.ts";
import { packBags } from "../train/embedding-bag.ts";
import { softenLogits } from "./soften-logits.ts";
import { createTextStudent } from "./student.ts";
import {
  type OnDistillProgress,
  type DistilledStudents,
  type DistillOptions,
  trainStudents,
} from "./train-students.ts";
import { queryTeacher } from "./teacher.ts";
import type { TextTeacher } from "./text-teacher.ts";
import { augmentTexts, splitWords } from "./augment-texts.ts";

export interface TextSample {
  readonly text: string;
  /** Undefined where nobody has said it; one that the project does not have stands for what is out of scope, and only the teacher is heard. */
  readonly label?: string | undefined;
}

export interface DistillTextOptions extends DistillOptions {
  readonly features: HashedNgramsConfig;
  /** Numbers of an embedding. */
  readonly embeddingDims: number;
  /** Share of a text's features that it is learnt without, drawn anew each time. */
  readonly featureDropout: number;
  /** Varied copies of each text. */
  readonly augmentedCopies: number;
  /** Folder for the teacher's answers. */
  readonly cacheFolder?: string | undefined;
}

export interface DistilledTextStudents extends DistilledStudents {
  /** That the student has learnt, made ones among them. */
  readonly textCount: number;
}

/** A text without a word is taught as no label more than another: one for so many texts. */
const TEXTS_PER_EMPTY_TEXT = 750;
/** That ranges are found on. */
const MAX_RANGE_SAMPLES = 512;

/**
 * @param labels of the project, in the order of the logits
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
  const {
    features,
    embeddingDims: dims,
    featureDropout,
    temperature,
    augmentedCopies: vary,
    seed,
    cacheFolder: cache,
  } = options;
  const asking = {
    cacheFolder: cache,
    onProgress: (done: number, of: number) => onProgress({ step: "teacher", done, total: of }),
  };
  const alike =
    vary === 0
      ? undefined
      : await findSimilarWords(
          teacher,
          [...new Set(samples.flatMap(({ text }) => splitWords(text)))],
          teacher.vocabularyWords,
          asking,
        );
  const texts = [...samples.map(({ text }) => text), ...augmentTexts(samples, vary, seed, alike)];
  const answers = await queryTeacher(
    teacher,
    texts.map((text): TextInput => ({ kind: "text", text })),
    asking,
  );

  const outputs = labels.length;
  const count = texts.length + Math.ceil(texts.length / TEXTS_PER_EMPTY_TEXT);
  const soft = new Float32Array(count * outputs).fill(1 / outputs);
  soft.set(softenLogits(answers, outputs, temperature));
  const positions = new Map(labels.map((label, position) => [label, position]));
  const known = new Int32Array(count).fill(-1);
  samples.forEach(
    ({ label }, sample) =>
      (known[sample] = label === undefined ? -1 : (positions.get(label) ?? -1)),
  );

  const idsOf = createNgramHasher(features);
  const ids = Array.from({ length: count }, (_, sample) => idsOf(texts[sample] ?? ""));
  const studentOn = (own: readonly Int32Array[]) =>
    createTextStudent(
      { bags: packBags(own), buckets: features.buckets, embeddingDims: dims, featureDropout },
      outputs,
      options,
    );
  const labelled = ids.filter((_, sample) => (known[sample] ?? -1) >= 0);
  const step = Math.ceil(samples.length / MAX_RANGE_SAMPLES);
  const lessons = {
    student: studentOn(ids),
    targets: { softTargets: soft, outputs, labels: known },
    labelOnlyBaseline:
      labelled.length === 0
        ? undefined
        : { student: studentOn(labelled), labels: known.filter((label) => label >= 0) },
    rangeSamples: ids
      .slice(0, samples.length)
      .filter((_, sample) => sample % step === 0)
      .map(toTensors),
  };
  return {
    ...(await trainStudents(lessons, runtime, options, onProgress)),
    textCount: texts.length,
  };
}

const toTensors = (ids: Int32Array): NamedTensors => ({
  ids: { datatype: "INT32", shape: [1, ids.length], data: ids },
});
