// Text to WordPiece ids, from a `tokenizer.json` of Hugging Face's tokenizers.

import { Tokenizer } from "@huggingface/tokenizers";
import * as z from "zod";

const component = z.looseObject({ type: z.string() }).nullable();

/** A vocabulary has tens of thousands of entries, and is read in a cold start: one loop, no schema per entry. */
const vocabulary = z.custom<Record<string, number>>(
  (value) => typeof value === "object" && value !== null && Object.values(value).every((id) => Number.isSafeInteger(id) && id >= 0),
  "must map pieces to whole numbers from 0",
);

/** What of `tokenizer.json` is read here; the library reads the rest. */
export const wordpieceSchema = z.looseObject({
  model: z.looseObject({
    type: z.literal("WordPiece"),
    vocab: vocabulary,
    unk_token: z.string(),
    continuing_subword_prefix: z.string(),
  }),
  added_tokens: z.array(z.looseObject({ id: z.int().min(0), content: z.string().min(1), special: z.boolean() })),
  normalizer: component,
  pre_tokenizer: component,
  post_processor: component,
  decoder: component,
});

/**
 * @param maxTokens of a row, special tokens included; what is beyond is cut off before the closing special tokens.
 * @returns a function from a text to its ids, special tokens around them.
 * @throws Error (the library's) for a component that it does not know.
 */
export function createWordpiece(json: z.output<typeof wordpieceSchema>, maxTokens: number): (text: string) => readonly number[] {
  const tokenizer = new Tokenizer(json, {});
  if (tokenizer.token_to_id(json.model.unk_token) === undefined) throw new Error(`the vocabulary lacks ${json.model.unk_token}`);
  const closing = closingTokens(tokenizer);
  if (maxTokens <= closing) throw new Error(`maxTokens is ${maxTokens}, which leaves no room for text`);

  return (text) => {
    const { ids } = tokenizer.encode(text);
    if (ids.length <= maxTokens) return ids;
    return [...ids.slice(0, maxTokens - closing), ...ids.slice(ids.length - closing)];
  };
}

/** How many special tokens the post-processor puts after the text ([SEP]), read off an encoded probe. */
function closingTokens(tokenizer: Tokenizer): number {
  const framed = tokenizer.encode("a").ids;
  const bare = tokenizer.encode("a", { add_special_tokens: false }).ids;
  return framed.length - (framed.lastIndexOf(bare.at(-1) ?? -1) + 1);
}
