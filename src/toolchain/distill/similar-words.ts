// Finds similar words: words for which the teacher predicts nearly the same logits. Replacing words
// by them transfers the teacher's knowledge of words that no sample contains.

import type { TextInput } from "../../tasks/task.ts";
import { type QueryTeacherOptions, queryTeacher, type Teacher } from "./teacher.ts";

const MAX_NEIGHBORS = 8;
const MIN_COSINE = 0.5;
/** Matches words without surrounding punctuation. */
const WORD = /^[\p{L}\p{N}][\p{L}\p{N}'’-]*$/u;

/**
 * @param words words to find similar words for
 * @param vocabulary further words that may be similar to them
 * @returns the nearest words of each word, by the cosine of the centered logits; words without
 *   similar words are omitted
 * @throws session_failed
 */
export async function findSimilarWords(
  teacher: Teacher<TextInput>,
  words: readonly string[],
  vocabulary: readonly string[],
  options: QueryTeacherOptions = {},
): Promise<ReadonlyMap<string, readonly string[]>> {
  const candidates = [...new Set([...words, ...vocabulary])];
  const { outputs } = teacher;
  const directions = await queryTeacher(
    teacher,
    candidates.map((text): TextInput => ({ kind: "text", text })),
    options,
  );
  centerAndNormalize(directions, outputs);
  const similarWords = new Map<string, readonly string[]>();
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
      nearest.sort((a, b) => b.cosine - a.cosine);
      nearest.length = Math.min(nearest.length, MAX_NEIGHBORS);
    }
    if (nearest.length > 0)
      similarWords.set(
        text,
        nearest.map(({ candidate }) => candidates[candidate] ?? ""),
      );
  }
  return similarWords;
}

/**
 * Multiplies one row with every row, four rows at a time, so that the additions do not wait for
 * each other.
 */
function computeCosines(rows: Float32Array, width: number, row: number, into: Float64Array): void {
  const query = rows.subarray(row * width, (row + 1) * width);
  for (let other = 0; other < into.length; other += 4) {
    const from = other * width;
    let [first, second, third, fourth] = [0, 0, 0, 0];
    for (let index = 0; index < width; index++) {
      const value = query[index] ?? 0;
      const position = from + index;
      first += value * (rows[position] ?? 0);
      second += value * (rows[position + width] ?? 0);
      third += value * (rows[position + 2 * width] ?? 0);
      fourth += value * (rows[position + 3 * width] ?? 0);
    }
    into[other] = first;
    into[other + 1] = second; // Writes past the end of a typed array have no effect.
    into[other + 2] = third;
    into[other + 3] = fourth;
  }
}

/** Subtracts the mean of all rows and scales each row to length 1, in place. */
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
