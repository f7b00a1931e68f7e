// Distils a teacher of texts into students on hashed n-grams.

import type { Runtime } from "../../runtime/runtime.ts";
import type { TextInput } from "../../tasks/task.ts";
import { createHashedNgrams, type HashedNgramsConfig } from "../../tasks/text/hashed-ngrams.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { alikeWords } from "./alike-words.ts";
import { bagsOf } from "../train/embedding-bag.ts";
import { soften } from "./soften.ts";
import { textStudent } from "./student.ts";
import { type OnProgress, type Students, type StudentsOptions, trainStudents } from "./students.ts";
import { askTeacher } from "./teacher.ts";
import type { TextTeacher } from "./text-teacher.ts";
import { variedTexts, wordsOf } from "./vary-texts.ts";

export interface TextSample {
  readonly text: string;
  /** Undefined where nobody has said it; one that the project does not have stands for what is out of scope, and only the teacher is heard. */
  readonly label?: string | undefined;
}

export interface DistilTextOptions extends StudentsOptions {
  readonly features: HashedNgramsConfig;
  /** Numbers of an embedding. */
  readonly dims: number;
  /** Share of a text's features that it is learnt without, drawn anew each time. */
  readonly featureDropout: number;
  /** Varied copies of each text. */
  readonly vary: number;
  /** Folder for the teacher's answers. */
  readonly cache?: string | undefined;
}

export interface DistilledText extends Students {
  /** That the student has learnt, made ones among them. */
  readonly texts: number;
}

/** A text without a word is taught as no label more than another: one for so many texts. */
const TEXTS_PER_BLANK = 750;
/** That ranges are found on. */
const CALIBRATION_TEXTS = 512;

/**
 * @param labels of the project, in the order of the logits
 * @throws session_failed, not_quantisable
 */
export async function distilText(
  teacher: TextTeacher,
  samples: readonly TextSample[],
  labels: readonly string[],
  runtime: Runtime,
  options: DistilTextOptions,
  onProgress: OnProgress = () => {},
): Promise<DistilledText> {
  const { features, dims, featureDropout, temperature, vary, seed, cache } = options;
  const asking = {
    cache,
    onProgress: (done: number, of: number) => onProgress({ step: "teacher", done, of }),
  };
  const alike =
    vary === 0
      ? undefined
      : await alikeWords(
          teacher,
          [...new Set(samples.flatMap(({ text }) => wordsOf(text)))],
          teacher.words,
          asking,
        );
  const texts = [...samples.map(({ text }) => text), ...variedTexts(samples, vary, seed, alike)];
  const answers = await askTeacher(
    teacher,
    texts.map((text): TextInput => ({ kind: "text", text })),
    asking,
  );

  const outputs = labels.length;
  const count = texts.length + Math.ceil(texts.length / TEXTS_PER_BLANK);
  const soft = new Float32Array(count * outputs).fill(1 / outputs);
  soft.set(soften(answers, outputs, temperature));
  const positions = new Map(labels.map((label, position) => [label, position]));
  const known = new Int32Array(count).fill(-1);
  samples.forEach(
    ({ label }, sample) =>
      (known[sample] = label === undefined ? -1 : (positions.get(label) ?? -1)),
  );

  const idsOf = createHashedNgrams(features);
  const ids = Array.from({ length: count }, (_, sample) => idsOf(texts[sample] ?? ""));
  const studentOn = (own: readonly Int32Array[]) =>
    textStudent(
      { bags: bagsOf(own), buckets: features.buckets, dims, featureDropout },
      outputs,
      options,
    );
  const labelled = ids.filter((_, sample) => (known[sample] ?? -1) >= 0);
  const step = Math.ceil(samples.length / CALIBRATION_TEXTS);
  const lessons = {
    student: studentOn(ids),
    targets: { soft, outputs, labels: known },
    labelsAlone:
      labelled.length === 0
        ? undefined
        : { student: studentOn(labelled), labels: known.filter((label) => label >= 0) },
    calibration: ids
      .slice(0, samples.length)
      .filter((_, sample) => sample % step === 0)
      .map(tensorsOf),
  };
  return { ...(await trainStudents(lessons, runtime, options, onProgress)), texts: texts.length };
}

const tensorsOf = (ids: Int32Array): NamedTensors => ({
  ids: { datatype: "INT32", shape: [1, ids.length], data: ids },
});
