// WordPiece tokenizer: converts a text to ids with special tokens, by a `tokenizer.json` of Hugging Face's tokenizers.

import { Tokenizer } from "@huggingface/tokenizers";
import * as z from "zod";
import { taskErrors } from "../errors.ts";

const componentSchema = z.looseObject({ type: z.string() }).nullable();

/** Checks the vocabulary in one loop, without a schema per entry, because a cold start reads tens of thousands. */
const vocabularySchema = z.custom<Record<string, number>>(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    Object.values(value).every((id) => Number.isSafeInteger(id) && id >= 0),
  "must map pieces to non-negative integers",
);

/** Fields of `tokenizer.json` that EdgeTier reads; the library reads the others. */
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
  /** Encodes a tokenized text, with or without its special tokens. @throws invalid_tokens */
  encodeTokens(ids: readonly number[]): readonly number[];
}

/**
 * @param maxTokens limit of a row, including special tokens; longer rows are truncated before the closing special tokens
 * @throws Error of the library for an unknown component
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
  const vocabularySize =
    1 +
    [...Object.values(json.model.vocab), ...json.added_tokens.map(({ id }) => id)].reduce(
      (largest, id) => Math.max(largest, id),
      0,
    );

  const truncate = (ids: readonly number[]) =>
    ids.length <= maxTokens ? ids : [...ids.slice(0, maxTokens - closing.length), ...closing];
  const isFramed = (ids: readonly number[]) =>
    opening.every((id, at) => ids[at] === id) &&
    closing.every((id, at) => ids[ids.length - closing.length + at] === id);
  return {
    encodeText(text) {
      // A word gives at least one token, unless all its characters are dropped. So the first words of a long text usually
      // suffice.
      const prefix = takeFirstWords(text, maxTokens);
      const { ids } = tokenizer.encode(prefix);
      return truncate(
        ids.length < maxTokens && prefix.length < text.length ? tokenizer.encode(text).ids : ids,
      );
    },
    encodeTokens(ids) {
      const unknown = ids.find((id) => id >= vocabularySize);
      if (unknown !== undefined) throw taskErrors.invalidTokens(unknown, vocabularySize);
      return truncate(isFramed(ids) ? ids : [...opening, ...ids, ...closing]);
    },
  };
}

/** Returns the text's first words, separated at the white space at which every tokenizer splits. */
function takeFirstWords(text: string, count: number): string {
  const words = /[ \t\r\n]*[^ \t\r\n]+/g;
  for (let remaining = count; remaining > 0; remaining--)
    if (words.exec(text) === null) return text;
  return text.slice(0, words.lastIndex);
}

/** Finds the special tokens that the post-processor adds ([CLS] and [SEP]), by encoding a probe text. */
function findSpecialTokens(tokenizer: Tokenizer): {
  readonly opening: readonly number[];
  readonly closing: readonly number[];
} {
  const framed = tokenizer.encode("a").ids;
  const bare = tokenizer.encode("a", { add_special_tokens: false }).ids;
  const end = framed.lastIndexOf(bare.at(-1) ?? -1) + 1;
  return { opening: framed.slice(0, Math.max(0, end - bare.length)), closing: framed.slice(end) };
}
