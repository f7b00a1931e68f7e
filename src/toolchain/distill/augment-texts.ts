// Varied copies of texts: a teacher can label anything, and a student learns from many more texts than there are samples.
// Per copy one or two of: words dropped, neighbours swapped, words exchanged for others that are alike, or that follow the same word somewhere
// in the samples, a slip of the keyboard, the beginning of one text and the end of another.

import { seededRandom } from "../seeded-random.ts";

export interface SourceText {
  readonly text: string;
  /** Half of the splices are of texts of one label, where they have any. */
  readonly label?: string | undefined;
}

const LETTERS = "abcdefghijklmnopqrstuvwxyz";
const [LEAST_DROPPED, MOST_DROPPED] = [0.05, 0.35];
const [LEAST_EXCHANGED, MOST_EXCHANGED] = [0.1, 0.5];
const SAME_LABEL_SPLICE_SHARE = 0.5;
/** For the word in front of a text's first. */
const START_OF_TEXT = "";

type Augmentation = (words: readonly string[], label: string | undefined) => string[];

/**
 * The same seed gives the same texts, and more copies begin with the texts of fewer.
 * @param copies of each text, at most: what comes out twice, or is among the texts, is left out
 * @param alike words that a word may be exchanged for
 */
export function augmentTexts(
  texts: readonly SourceText[],
  copies: number,
  seed: number,
  alike: ReadonlyMap<string, readonly string[]> = new Map(),
): string[] {
  const random = seededRandom(seed);
  const below = (count: number) => Math.floor(random() * count);
  const between = (least: number, most: number) => least + (most - least) * random();
  const sources = texts
    .map(({ text, label }) => ({ words: splitWords(text), label }))
    .filter(({ words }) => words.length > 0);
  const byLabel = Map.groupBy(sources, ({ label }) => label);
  const followers = collectFollowers(sources.map(({ words }) => words));

  const drop: Augmentation = (words) => {
    const share = between(LEAST_DROPPED, MOST_DROPPED);
    return words.filter(() => random() >= share);
  };
  const swap: Augmentation = (words) => {
    const at = below(words.length - 1);
    return words.length < 2
      ? [...words]
      : [...words.slice(0, at), words[at + 1] ?? "", words[at] ?? "", ...words.slice(at + 2)];
  };
  const exchanged = (
    words: readonly string[],
    othersOf: (word: string, at: number) => readonly string[] | undefined,
  ) => {
    const share = between(LEAST_EXCHANGED, MOST_EXCHANGED);
    return words.map((word, at) => {
      if (random() >= share) return word;
      const others = othersOf(word, at) ?? [];
      return others[below(others.length)] ?? word;
    });
  };
  const exchange: Augmentation = (words) =>
    exchanged(words, (_, at) => followers.get(words[at - 1] ?? START_OF_TEXT));
  const replace: Augmentation = (words) => exchanged(words, (word) => alike.get(word));
  const slip: Augmentation = (words) => {
    const at = below(words.length);
    return words.map((word, position) => (position === at ? misspelt(word) : word));
  };
  const splice: Augmentation = (words, label) => {
    const others =
      (label !== undefined && random() < SAME_LABEL_SPLICE_SHARE
        ? byLabel.get(label)
        : undefined) ?? sources;
    const tail = others[below(others.length)]?.words ?? [];
    return [...words.slice(0, 1 + below(words.length)), ...tail.slice(below(tail.length))];
  };
  const changes = [
    drop,
    swap,
    exchange,
    ...(alike.size === 0 ? [exchange] : [replace, replace]),
    slip,
    splice,
    splice,
  ];

  const known = new Set(sources.map(({ words }) => words.join(" ")));
  const made: string[] = [];
  for (let copy = 0; copy < copies; copy++) {
    for (const { words, label } of sources) {
      const first = below(changes.length);
      const second = random() < 0.5 ? first : below(changes.length);
      let varied: readonly string[] = words;
      for (const position of new Set([first, second])) {
        const changed = changes[position]?.(varied, label) ?? [];
        if (changed.length > 0) varied = changed;
      }
      const text = varied.join(" ");
      if (known.has(text)) continue;
      known.add(text);
      made.push(text);
    }
  }
  return made;

  function misspelt(word: string): string {
    const characters = [...word];
    const at = below(characters.length);
    const letter = LETTERS[below(LETTERS.length)] ?? "";
    switch (below(4)) {
      case 0:
        return characters.toSpliced(at, 1).join("") || word;
      case 1:
        return characters.with(at, letter).join("");
      case 2:
        return characters.toSpliced(at, 0, letter).join("");
      default:
        return [
          ...characters.slice(0, at),
          characters[at + 1] ?? "",
          characters[at] ?? "",
          ...characters.slice(at + 2),
        ].join("");
    }
  }
}

/** As variations take texts apart. */
export const splitWords = (text: string): string[] =>
  text.split(/\s+/).filter((word) => word !== "");

/** Every word that comes after a word, as often as it does. */
function collectFollowers(
  texts: readonly (readonly string[])[],
): ReadonlyMap<string, readonly string[]> {
  const followers = new Map<string, string[]>();
  for (const words of texts) {
    words.forEach((word, at) => {
      const before = words[at - 1] ?? START_OF_TEXT;
      const own = followers.get(before);
      if (own === undefined) followers.set(before, [word]);
      else own.push(word);
    });
  }
  return followers;
}
