// Queries a teacher for many inputs in ONNX Runtime. Files cache its answers by chunks of inputs. A
// second run, or a run with inputs appended, computes only the new chunks.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { byteView } from "../../core/bytes.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";

export interface Teacher<Input> {
  /** Digest of everything that determines the answers; part of the cache key. */
  readonly digest: string;
  /** Length of an answer. */
  readonly outputs: number;
  encodeInput(input: Input): Uint8Array;
  /**
   * @param inputs a batch of inputs of similar size
   * @returns [inputs, outputs]
   * @throws session_failed
   */
  predict(inputs: readonly Input[]): Promise<Float32Array>;
}

export interface QueryTeacherOptions {
  /** Folder that caches the answers; without a folder, they are not cached. */
  readonly cacheFolder?: string | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/** Number of inputs whose answers share a file. */
const CACHE_CHUNK_SIZE = 4_096;
const BATCH_SIZE = 64;

/** @returns [inputs, outputs] @throws session_failed */
export async function queryTeacher<Input>(
  teacher: Teacher<Input>,
  inputs: readonly Input[],
  { cacheFolder, onProgress = () => {} }: QueryTeacherOptions = {},
): Promise<Float32Array> {
  const answers = new Float32Array(inputs.length * teacher.outputs);
  for (let start = 0; start < inputs.length; start += CACHE_CHUNK_SIZE) {
    const chunk = inputs.slice(start, start + CACHE_CHUNK_SIZE);
    const encoded = chunk.map((input) => teacher.encodeInput(input));
    const file =
      cacheFolder === undefined
        ? undefined
        : join(
            cacheFolder,
            `${sha256HexSync("teacher 1", teacher.digest, ...encoded.flatMap((bytes) => [`${bytes.byteLength} `, bytes]))}.f32`,
          );
    const cached =
      file === undefined
        ? undefined
        : await readCachedAnswers(file, chunk.length * teacher.outputs);
    const chunkAnswers =
      cached ??
      (await queryChunk(
        teacher,
        chunk,
        encoded.map(({ byteLength }) => byteLength),
        (done) => onProgress(start + done, inputs.length),
      ));
    if (cached === undefined && file !== undefined)
      await writeFileAtomic(file, byteView(chunkAnswers));
    answers.set(chunkAnswers, start * teacher.outputs);
    onProgress(start + chunk.length, inputs.length);
  }
  return answers;
}

/** Sorts the inputs by size, because batches of similar sizes need little padding. */
async function queryChunk<Input>(
  teacher: Teacher<Input>,
  inputs: readonly Input[],
  sizes: readonly number[],
  onProgress: (done: number) => void,
): Promise<Float32Array> {
  const answers = new Float32Array(inputs.length * teacher.outputs);
  const order = [...inputs.entries()].toSorted(([a], [b]) => (sizes[a] ?? 0) - (sizes[b] ?? 0));
  for (let start = 0; start < order.length; start += BATCH_SIZE) {
    const batch = order.slice(start, start + BATCH_SIZE);
    const predictions = await teacher.predict(batch.map(([, input]) => input));
    batch.forEach(([position], row) =>
      answers.set(
        predictions.subarray(row * teacher.outputs, (row + 1) * teacher.outputs),
        position * teacher.outputs,
      ),
    );
    onProgress(start + batch.length);
  }
  return answers;
}

/** @returns undefined unless the file has exactly `count` numbers */
async function readCachedAnswers(file: string, count: number): Promise<Float32Array | undefined> {
  const bytes = await readFile(file).catch(() => undefined);
  return bytes?.byteLength === 4 * count
    ? new Float32Array(new Uint8Array(bytes).buffer)
    : undefined;
}
