// A teacher's answers to many inputs, from ONNX Runtime. Answers are kept in files, a part of the inputs each, so that a second
// try, or one with more inputs behind the same ones, asks only what is new.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { bytesOf } from "../../core/bytes.ts";
import { digestOf } from "../digest.ts";
import { writeWhole } from "../write-whole.ts";

export interface Teacher<Input> {
  /** Of all that its answers follow from. */
  readonly digest: string;
  /** Numbers of an answer. */
  readonly outputs: number;
  bytesOf(input: Input): Uint8Array;
  /** [inputs, outputs]. Those of nearly the same size come together. @throws session_failed */
  answer(inputs: readonly Input[]): Promise<Float32Array>;
}

export interface AskOptions {
  /** Folder; answers are not kept without one. */
  readonly cache?: string | undefined;
  readonly onProgress?: ((done: number, of: number) => void) | undefined;
}

/** Inputs whose answers are in one file. */
const PART = 4_096;
const BATCH = 64;

/** @returns [inputs, outputs] @throws session_failed */
export async function askTeacher<Input>(
  teacher: Teacher<Input>,
  inputs: readonly Input[],
  { cache, onProgress = () => {} }: AskOptions = {},
): Promise<Float32Array> {
  const answers = new Float32Array(inputs.length * teacher.outputs);
  for (let start = 0; start < inputs.length; start += PART) {
    const part = inputs.slice(start, start + PART);
    const encoded = part.map((input) => teacher.bytesOf(input));
    const file =
      cache === undefined
        ? undefined
        : join(
            cache,
            `${digestOf("teacher 1", teacher.digest, ...encoded.flatMap((bytes) => [`${bytes.byteLength} `, bytes]))}.f32`,
          );
    const known =
      file === undefined ? undefined : await readAnswers(file, part.length * teacher.outputs);
    const own =
      known ??
      (await askPart(
        teacher,
        part,
        encoded.map(({ byteLength }) => byteLength),
        (done) => onProgress(start + done, inputs.length),
      ));
    if (known === undefined && file !== undefined) await writeWhole(file, bytesOf(own));
    answers.set(own, start * teacher.outputs);
    onProgress(start + part.length, inputs.length);
  }
  return answers;
}

/** Little is padding when those of one batch are of one size. */
async function askPart<Input>(
  teacher: Teacher<Input>,
  inputs: readonly Input[],
  sizes: readonly number[],
  onProgress: (done: number) => void,
): Promise<Float32Array> {
  const answers = new Float32Array(inputs.length * teacher.outputs);
  const order = [...inputs.entries()].toSorted(
    ([one], [other]) => (sizes[one] ?? 0) - (sizes[other] ?? 0),
  );
  for (let start = 0; start < order.length; start += BATCH) {
    const batch = order.slice(start, start + BATCH);
    const own = await teacher.answer(batch.map(([, input]) => input));
    batch.forEach(([position], row) =>
      answers.set(
        own.subarray(row * teacher.outputs, (row + 1) * teacher.outputs),
        position * teacher.outputs,
      ),
    );
    onProgress(start + batch.length);
  }
  return answers;
}

/** Undefined where there are none of that many numbers. */
async function readAnswers(file: string, numbers: number): Promise<Float32Array | undefined> {
  const bytes = await readFile(file).catch(() => undefined);
  return bytes?.byteLength === 4 * numbers
    ? new Float32Array(new Uint8Array(bytes).buffer)
    : undefined;
}
