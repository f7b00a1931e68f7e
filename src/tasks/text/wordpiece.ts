// Text to WordPiece ids, special tokens around them, from a `tokenizer.json` of Hugging Face's tokenizers.

import { taskErrors } from "../errors.ts";
import { Tokenizer } from "@huggingface/tokenizers";
import * as z from "zod";

const componentSchema = z.looseObject({ type: z.string() }).nullable();

/** A vocabulary has tens of thousands of entries, and is read in a cold start: one loop, no schema per entry. */
const vocabularySchema = z.custom<Record<string, number>>(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    Object.values(value).every((id) => Number.isSafeInteger(id) && id >= 0),
  "must map pieces to whole numbers from 0",
);

/** What of `tokenizer.json` is read here; the library reads the rest. */
export const tokenizerJsonSchema = z.looseObject({
  model: z.looseObject({
    type: z.literal("WordPiece"),
    vocab: vocabularySchema,
    unk_token: z.string(),
    continuing_subword_prefix: z.string(),
  }),
  added_tokens: z.array(
    z.looseObject({ id: z.int().min(0), content: z.string().min(1), special: z.boolean() }),
  ),
  normalizer: componentSchema,
  pre_tokenizer: componentSchema,
  post_processor: componentSchema,
  decoder: componentSchema,
});

export interface WordpieceTokenizer {
  encodeText(text: string): readonly number[];
  /** Of a text that has been made tokens already, with special tokens around them or without. @throws invalid_tokens */
  encodeTokens(ids: readonly number[]): readonly number[];
}

/**
 * @param maxTokens of a row, special tokens included; what is beyond is cut off before the closing special tokens.
 * @throws Error (the library's) for a component that it does not know.
 */
export function createWordpieceTokenizer(
  json: z.output<typeof tokenizerJsonSchema>,
  maxTokens: number,
): WordpieceTokenizer {
  const tokenizer = new Tokenizer(json, {});
  if (tokenizer.token_to_id(json.model.unk_token) === undefined)
    throw new Error(`the vocabulary lacks ${json.model.unk_token}`);
  const { opening, closing } = findSpecialTokens(tokenizer);
  if (maxTokens <= closing.length)
    throw new Error(`maxTokens is ${maxTokens}, which leaves no room for text`);
  const pieces =
    1 +
    [...Object.values(json.model.vocab), ...json.added_tokens.map(({ id }) => id)].reduce(
      (most, id) => Math.max(most, id),
      0,
    );

  const cut = (ids: readonly number[]) =>
    ids.length <= maxTokens ? ids : [...ids.slice(0, maxTokens - closing.length), ...closing];
  const isFramed = (ids: readonly number[]) =>
    opening.every((id, at) => ids[at] === id) &&
    closing.every((id, at) => ids[ids.length - closing.length + at] === id);
  return {
    encodeText(text) {
      // Of a long text only the beginning is read: a word gives a token at least, unless it is of characters that are dropped.
      const beginning = takeFirstWords(text, maxTokens);
      const { ids } = tokenizer.encode(beginning);
      return cut(
        ids.length < maxTokens && beginning.length < text.length ? tokenizer.encode(text).ids : ids,
      );
    },
    encodeTokens(ids) {
      const unknown = ids.find((id) => id >= pieces);
      if (unknown !== undefined) throw taskErrors.invalidTokens(unknown, pieces);
      return cut(isFramed(ids) ? ids : [...opening, ...ids, ...closing]);
    },
  };
}

/** Of words by the spaces that every tokenizer parts at. */
function takeFirstWords(text: string, count: number): string {
  const words = /[ \t\r\n]*[^ \t\r\n]+/g;
  for (let left = count; left > 0; left--) if (words.exec(text) === null) return text;
  return text.slice(0, words.lastIndex);
}

/** What the post-processor puts around a text ([CLS] and [SEP]), read off an encoded probe. */
function findSpecialTokens(tokenizer: Tokenizer): {
  readonly opening: readonly number[];
  readonly closing: readonly number[];
} {
  const framed = tokenizer.encode("a").ids;
  const bare = tokenizer.encode("a", { add_special_tokens: false }).ids;
  const end = framed.lastIndexOf(bare.at(-1) ?? -1) + 1;
  return { opening: framed.slice(0, Math.max(0, end - bare.length)), closing: framed.slice(end) };
}
