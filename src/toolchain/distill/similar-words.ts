// Words that a teacher takes for alike: asked one word alone, it answers them in nearly the same way. They carry its knowledge of
// words that no sample has.

import type { TextInput } from "../../tasks/task.ts";
import { type QueryTeacherOptions, queryTeacher, type Teacher } from "./teacher.ts";

const MAX_NEIGHBORS = 8;
const MIN_COSINE = 0.5;
/** Without the punctuation of the text that a word was found in. */
const WORD = /^[\p{L}\p{N}][\p{L}\p{N}'’-]*$/u;

/**
 * @param words for which others are looked for
 * @param others that may take their places, beside `words` themselves
 * @returns for each word its nearest, by the cosine of the logits less their mean over all words; those without any are left out
 * @throws session_failed
 */
export async function findSimilarWords(
  teacher: Teacher<TextInput>,
  words: readonly string[],
  others: readonly string[],
  options: QueryTeacherOptions = {},
): Promise<ReadonlyMap<string, readonly string[]>> {
  const candidates = [...new Set([...words, ...others])];
  const { outputs } = teacher;
  const directions = await queryTeacher(
    teacher,
    candidates.map((text): TextInput => ({ kind: "text", text })),
    options,
  );
  centerAndNormalize(directions, outputs);
  const alike = new Map<string, readonly string[]>();
  const cosines = new Float64Array(candidates.length);
  const isWord = candidates.map((text) => WORD.test(text));
  for (const [word, text] of words.entries()) {
    computeCosines(directions, outputs, word, cosines);
    const nearest: { readonly cosine: number; readonly candidate: number }[] = [];
    for (let candidate = 0; candidate < candidates.length; candidate++) {
      const cosine = cosines[candidate] ?? 0;
      if (
        cosine < MIN_COSINE ||
        candidate === word ||
        cosine <= (nearest[MAX_NEIGHBORS - 1]?.cosine ?? 0) ||
        isWord[candidate] !== true
      )
        continue;
      nearest.push({ cosine, candidate });
      nearest.sort((one, other) => other.cosine - one.cosine);
      nearest.length = Math.min(nearest.length, MAX_NEIGHBORS);
    }
    if (nearest.length > 0)
      alike.set(
        text,
        nearest.map(({ candidate }) => candidates[candidate] ?? ""),
      );
  }
  return alike;
}

/** Of one row with every row; four at a time, so that no sum waits for the one before. */
function computeCosines(rows: Float32Array, width: number, row: number, into: Float64Array): void {
  const own = rows.subarray(row * width, (row + 1) * width);
  for (let other = 0; other < into.length; other += 4) {
    const from = other * width;
    let [first, second, third, fourth] = [0, 0, 0, 0];
    for (let index = 0; index < width; index++) {
      const value = own[index] ?? 0;
      const at = from + index;
      first += value * (rows[at] ?? 0);
      second += value * (rows[at + width] ?? 0);
      third += value * (rows[at + 2 * width] ?? 0);
      fourth += value * (rows[at + 3 * width] ?? 0);
    }
    into[other] = first;
    into[other + 1] = second; // what is behind the last is not kept
    into[other + 2] = third;
    into[other + 3] = fourth;
  }
}

/** Rows less their mean, of length 1, in place. */
function centerAndNormalize(rows: Float32Array, width: number): void {
  const count = Math.max(1, rows.length / width);
  const mean = new Float64Array(width);
  rows.forEach(
    (value, index) => (mean[index % width] = (mean[index % width] ?? 0) + value / count),
  );
  for (let start = 0; start < rows.length; start += width) {
    let squares = 0;
    for (let index = 0; index < width; index++) {
      const value = (rows[start + index] ?? 0) - (mean[index] ?? 0);
      rows[start + index] = value;
      squares += value * value;
    }
    const length = Math.sqrt(squares) || 1;
    for (let index = 0; index < width; index++)
      rows[start + index] = (rows[start + index] ?? 0) / length;
  }
}
