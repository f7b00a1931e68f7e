// A teacher's answers to many inputs, from ONNX Runtime. Answers are kept in files, a part of the inputs each, so that a second
// try, or one with more inputs behind the same ones, asks only what is new.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { byteView } from "../../core/bytes.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";

export interface Teacher<Input> {
  /** Of all that its answers follow from. */
  readonly digest: string;
  /** Numbers of an answer. */
  readonly outputs: number;
  encodeInput(input: Input): Uint8Array;
  /** [inputs, outputs]. Those of nearly the same size come together. @throws session_failed */
  predict(inputs: readonly Input[]): Promise<Float32Array>;
}

export interface QueryTeacherOptions {
  /** Folder; answers are not kept without one. */
  readonly cacheFolder?: string | undefined;
  readonly onProgress?: ((done: number, of: number) => void) | undefined;
}

/** Inputs whose answers are in one file. */
const CACHE_CHUNK_SIZE = 4_096;
const BATCH_SIZE = 64;

/** @returns [inputs, outputs] @throws session_failed */
export async function queryTeacher<Input>(
  teacher: Teacher<Input>,
  inputs: readonly Input[],
  { cacheFolder: cache, onProgress = () => {} }: QueryTeacherOptions = {},
): Promise<Float32Array> {
  const answers = new Float32Array(inputs.length * teacher.outputs);
  for (let start = 0; start < inputs.length; start += CACHE_CHUNK_SIZE) {
    const part = inputs.slice(start, start + CACHE_CHUNK_SIZE);
    const encoded = part.map((input) => teacher.encodeInput(input));
    const file =
      cache === undefined
        ? undefined
        : join(
            cache,
            `${sha256HexSync("teacher 1", teacher.digest, ...encoded.flatMap((bytes) => [`${bytes.byteLength} `, bytes]))}.f32`,
          );
    const known =
      file === undefined ? undefined : await readCachedAnswers(file, part.length * teacher.outputs);
    const own =
      known ??
      (await queryChunk(
        teacher,
        part,
        encoded.map(({ byteLength }) => byteLength),
        (done) => onProgress(start + done, inputs.length),
      ));
    if (known === undefined && file !== undefined) await writeFileAtomic(file, byteView(own));
    answers.set(own, start * teacher.outputs);
    onProgress(start + part.length, inputs.length);
  }
  return answers;
}

/** Little is padding when those of one batch are of one size. */
async function queryChunk<Input>(
  teacher: Teacher<Input>,
  inputs: readonly Input[],
  sizes: readonly number[],
  onProgress: (done: number) => void,
): Promise<Float32Array> {
  const answers = new Float32Array(inputs.length * teacher.outputs);
  const order = [...inputs.entries()].toSorted(
    ([one], [other]) => (sizes[one] ?? 0) - (sizes[other] ?? 0),
  );
  for (let start = 0; start < order.length; start += BATCH_SIZE) {
    const batch = order.slice(start, start + BATCH_SIZE);
    const own = await teacher.predict(batch.map(([, input]) => input));
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
async function readCachedAnswers(file: string, numbers: number): Promise<Float32Array | undefined> {
  const bytes = await readFile(file).catch(() => undefined);
  return bytes?.byteLength === 4 * numbers
    ? new Float32Array(new Uint8Array(bytes).buffer)
    : undefined;
}
