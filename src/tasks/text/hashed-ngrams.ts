// Hashed n-grams: converts a text to the n-gram ids of the edge tier. The ids equal those of
// models/intent/recipe/hashed_ngrams.py exactly.
//
// Words of the normalized text give word n-grams; the characters of "<word>" give fastText's subword n-grams
// (Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information"). A gram's UTF-8 bytes are hashed with
// FNV-1a (32 bit) and MurmurHash3's finalizer. Bytes use a shared buffer, so that a gram needs no allocation.

/** Configuration of a trained embedding table, stored in the tier's preprocessor artifact. */
export interface HashedNgramsConfig {
  readonly kind: "hashed-ngrams";
  /** Rows of the embedding table, at least 2; row 0 is reserved for padding. */
  readonly buckets: number;
  /** Lengths of word n-grams, in the order of their ids. */
  readonly wordNgrams: readonly number[];
  /** Lengths of character n-grams in code points, ascending. */
  readonly charNgrams: readonly number[];
  /** Maximum number of ids; further ids are dropped. */
  readonly maxFeatures: number;
}

const WORD = /[\p{L}\p{N}][\p{L}\p{M}\p{N}]*|\p{S}/gu;
const APOSTROPHES = /['\u2019]/g;
const DIGITS = /[1-9]/g;

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;
const WORD_GRAM = 0x77; // "w"
const CHARACTER_GRAM = 0x63; // "c"
const SPACE = 0x20;
const WORD_END = 0x3e; // ">"

/**
 * @returns a function from a text to its gram ids (1 to buckets - 1), word grams first; `[0]` for a text without grams
 * @throws RangeError for an invalid configuration
 */
export function createNgramHasher(config: HashedNgramsConfig): (text: string) => Int32Array {
  validateConfig(config);
  const { wordNgrams, charNgrams, maxFeatures } = config;
  const range = config.buckets - 1;
  const ids = new Int32Array(maxFeatures);
  const encoder = new TextEncoder();
  let bytes = new Uint8Array(1024); // contains the words, each as "<word>"

  return (text) => {
    const words = tokenizeWords(text);
    if (words === null) return new Int32Array(1);

    const joined = `<${words.join("><")}>`;
    if (bytes.length < joined.length * 3) bytes = new Uint8Array(joined.length * 3);
    const end = encoder.encodeInto(joined, bytes).written;
    const starts = findWordStarts(bytes, end, words.length);

    let count = 0;
    for (const length of wordNgrams) {
      for (let first = 0; first + length <= words.length && count < maxFeatures; first++) {
        ids[count++] = 1 + (hashWordGram(bytes, starts, first, length) % range);
      }
    }
    for (let word = 0; word < words.length && count < maxFeatures; word++) {
      count = addCharacterGrams(starts[word] ?? 0, starts[word + 1] ?? end, count);
    }
    return count === 0 ? new Int32Array(1) : ids.slice(0, count);
  };

  /** Adds the grams of one "<word>", start by start, and returns the new count. */
  function addCharacterGrams(from: number, to: number, count: number): number {
    for (let start = from; start < to; start++) {
      if (isContinuation(bytes[start])) continue;
      let hash = fnv1aStep(FNV_OFFSET, CHARACTER_GRAM);
      let at = start;
      let characters = 0;
      for (const length of charNgrams) {
        while (characters < length && at < to) {
          do hash = fnv1aStep(hash, bytes[at++] ?? 0);
          while (at < to && isContinuation(bytes[at]));
          characters++;
        }
        if (characters < length) break;
        if (count === maxFeatures) return count;
        ids[count++] = 1 + (fmix32(hash) % range);
      }
    }
    return count;
  }
}

function tokenizeWords(text: string): RegExpMatchArray | null {
  return text
    .normalize("NFKC")
    .toLowerCase()
    .replace(APOSTROPHES, "")
    .replace(DIGITS, "0")
    .match(WORD);
}

/** Returns the start of each "<word>", followed by the end of the last one. */
function findWordStarts(bytes: Uint8Array, end: number, words: number): Int32Array {
  const starts = new Int32Array(words + 1);
  let word = 0;
  // A word may be "<" or ">" itself, because both are symbols. The byte after a "<" therefore always belongs to the word.
  for (let at = 0; at < end; word++) {
    starts[word] = at;
    at += 2;
    while (bytes[at] !== WORD_END) at++;
    at++;
  }
  starts[words] = end;
  return starts;
}

function hashWordGram(
  bytes: Uint8Array,
  starts: Int32Array,
  first: number,
  length: number,
): number {
  let hash = fnv1aStep(FNV_OFFSET, WORD_GRAM);
  for (let word = first; word < first + length; word++) {
    if (word > first) hash = fnv1aStep(hash, SPACE);
    const last = (starts[word + 1] ?? 0) - 1;
    for (let at = (starts[word] ?? 0) + 1; at < last; at++) hash = fnv1aStep(hash, bytes[at] ?? 0);
  }
  return fmix32(hash);
}

/** Hashes one byte with FNV-1a. */
function fnv1aStep(hash: number, byte: number): number {
  return Math.imul(hash ^ byte, FNV_PRIME);
}

/** Applies MurmurHash3's fmix32, which spreads FNV's weak low bits. The result is unsigned. */
function fmix32(hash: number): number {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

function validateConfig(config: HashedNgramsConfig): void {
  const { buckets, wordNgrams, charNgrams, maxFeatures } = config;
  const lengths = [...wordNgrams, ...charNgrams];
  if (!Number.isSafeInteger(buckets) || buckets < 2 || buckets > 2 ** 31)
    throw new RangeError(`buckets is ${buckets}; expected an integer from 2 to 2^31`);
  if (!Number.isSafeInteger(maxFeatures) || maxFeatures < 1)
    throw new RangeError(`maxFeatures is ${maxFeatures}; expected a positive integer`);
  if (!lengths.every((length) => Number.isSafeInteger(length) && length > 0))
    throw new RangeError("n-gram lengths must be positive integers");
  if (charNgrams.some((length, i) => length <= (charNgrams[i - 1] ?? 0)))
    throw new RangeError("charNgrams must be ascending");
}
