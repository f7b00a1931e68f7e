// Augmentation: makes varied copies of texts. A teacher can label any text, so a student learns
// from many more texts than there are samples. Each copy has one or two variations. Words are
// dropped, swapped or misspelled. They are replaced by similar words, or by another follower of the
// previous word. The start of one text is joined to the end of another.

import { seededRandom } from "../seeded-random.ts";

export interface SourceText {
  readonly text: string;
  /** If a text has a label, half of its splices are with texts of that label. */
  readonly label?: string | undefined;
}

const LETTERS = "abcdefghijklmnopqrstuvwxyz";
const [MIN_DROP_SHARE, MAX_DROP_SHARE] = [0.05, 0.35];
const [MIN_REPLACE_SHARE, MAX_REPLACE_SHARE] = [0.1, 0.5];
const SAME_LABEL_SPLICE_SHARE = 0.5;
/** Predecessor of a text's first word. */
const START_OF_TEXT = "";

type SimilarWords = ReadonlyMap<string, readonly string[]>;
type Augmentation = (words: readonly string[], label: string | undefined) => string[];
interface SourceWords {
  readonly words: readonly string[];
  readonly label: string | undefined;
}

/**
 * The same seed gives the same texts, and a larger number of copies begins with the texts of a
 * smaller one.
 * @param copies maximum number of copies of each text; duplicates and copies equal to a source are
 *   omitted
 * @param similarWords possible replacements of a word
 */
export function augmentTexts(
  texts: readonly SourceText[],
  copies: number,
  seed: number,
  similarWords: SimilarWords = new Map(),
): string[] {
  const draw = new Draw(seededRandom(seed));
  const sources = texts
    .map(({ text, label }): SourceWords => ({ words: splitWords(text), label }))
    .filter(({ words }) => words.length > 0);
  const augmentations = createAugmentations(sources, draw, similarWords);
  const seen = new Set(sources.map(({ words }) => words.join(" ")));
  const augmented: string[] = [];
  for (let copy = 0; copy < copies; copy++) {
    for (const { words, label } of sources) {
      const first = draw.below(augmentations.length);
      const second = draw.isBelow(0.5) ? first : draw.below(augmentations.length);
      let varied: readonly string[] = words;
      for (const position of new Set([first, second])) {
        const changed = augmentations[position]?.(varied, label) ?? [];
        if (changed.length > 0) varied = changed;
      }
      const text = varied.join(" ");
      if (seen.has(text)) continue;
      seen.add(text);
      augmented.push(text);
    }
  }
  return augmented;
}

/** Draws from one stream of random numbers, so that the seed determines every choice. */
class Draw {
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  between(min: number, max: number): number {
    return min + (max - min) * this.#random();
  }

  isBelow(probability: number): boolean {
    return this.#random() < probability;
  }
}

/** Returns the variations; one that is listed twice is drawn twice as often. */
function createAugmentations(
  sources: readonly SourceWords[],
  draw: Draw,
  similarWords: SimilarWords,
): Augmentation[] {
  const byLabel = Map.groupBy(sources, ({ label }) => label);
  const followers = collectFollowers(sources.map(({ words }) => words));
  const drop: Augmentation = (words) => {
    const share = draw.between(MIN_DROP_SHARE, MAX_DROP_SHARE);
    return words.filter(() => !draw.isBelow(share));
  };
  const swap: Augmentation = (words) => {
    const position = draw.below(words.length - 1);
    return words.length < 2 ? [...words] : swapWithNext(words, position);
  };
  const replaceByFollower: Augmentation = (words) =>
    replaceSome(words, draw, (_, position) => followers.get(words[position - 1] ?? START_OF_TEXT));
  const replaceBySimilar: Augmentation = (words) =>
    replaceSome(words, draw, (word) => similarWords.get(word));
  const misspell: Augmentation = (words) => {
    const misspelledPosition = draw.below(words.length);
    return words.map((word, position) =>
      position === misspelledPosition ? misspellWord(word, draw) : word,
    );
  };
  const splice: Augmentation = (words, label) => {
    const sameLabel =
      label !== undefined && draw.isBelow(SAME_LABEL_SPLICE_SHARE) ? byLabel.get(label) : undefined;
    const candidates = sameLabel ?? sources;
    const tail = candidates[draw.below(candidates.length)]?.words ?? [];
    return [
      ...words.slice(0, 1 + draw.below(words.length)),
      ...tail.slice(draw.below(tail.length)),
    ];
  };
  return [
    drop,
    swap,
    replaceByFollower,
    ...(similarWords.size === 0 ? [replaceByFollower] : [replaceBySimilar, replaceBySimilar]),
    misspell,
    splice,
    splice,
  ];
}

function replaceSome(
  words: readonly string[],
  draw: Draw,
  findReplacements: (word: string, position: number) => readonly string[] | undefined,
): string[] {
  const share = draw.between(MIN_REPLACE_SHARE, MAX_REPLACE_SHARE);
  return words.map((word, position) => {
    if (!draw.isBelow(share)) return word;
    const replacements = findReplacements(word, position) ?? [];
    return replacements[draw.below(replacements.length)] ?? word;
  });
}

const swapWithNext = (items: readonly string[], position: number): string[] => [
  ...items.slice(0, position),
  items[position + 1] ?? "",
  items[position] ?? "",
  ...items.slice(position + 2),
];

function misspellWord(word: string, draw: Draw): string {
  const characters = [...word];
  const position = draw.below(characters.length);
  const letter = LETTERS[draw.below(LETTERS.length)] ?? "";
  switch (draw.below(4)) {
    case 0:
      return characters.toSpliced(position, 1).join("") || word;
    case 1:
      return characters.with(position, letter).join("");
    case 2:
      return characters.toSpliced(position, 0, letter).join("");
    default:
      return swapWithNext(characters, position).join("");
  }
}

/** Splits a text in the same way as the variations do. */
export const splitWords = (text: string): string[] =>
  text.split(/\s+/).filter((word) => word !== "");

/** Collects the followers of each word, each as often as it occurs. */
function collectFollowers(
  texts: readonly (readonly string[])[],
): ReadonlyMap<string, readonly string[]> {
  const followersByWord = new Map<string, string[]>();
  for (const words of texts) {
    words.forEach((word, position) => {
      const previous = words[position - 1] ?? START_OF_TEXT;
      const followers = followersByWord.get(previous);
      if (followers === undefined) followersByWord.set(previous, [word]);
      else followers.push(word);
    });
  }
  return followersByWord;
}
