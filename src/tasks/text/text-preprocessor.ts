// Text preprocessors: convert a batch of texts to the padded tensors of one graph.

import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { taskErrors } from "../errors.ts";
import type {
  RowPadding,
  Preprocessor,
  PreprocessorConfig,
  TaskInput,
  TextPreprocessorConfig,
} from "../task.ts";
import { createNgramHasher } from "./hashed-ngrams.ts";
import { createWordpieceTokenizer, tokenizerJsonSchema } from "./wordpiece.ts";

/** Limits the reported problems, because each entry of an artifact can be invalid. */
const MAX_PROBLEMS = 8;
/** Zero is neutral padding: id 0 is not a feature, and a token with mask 0 receives no attention. */
const ZERO_PADDING: RowPadding = { axis: 1, value: 0 };

const ngramLengthsSchema = z.array(z.int().min(1).max(64)).max(16);
const hashedNgramsSchema = z.strictObject({
  kind: z.literal("hashed-ngrams"),
  buckets: z.int().min(2).max(0x7fff_ffff),
  wordNgrams: ngramLengthsSchema,
  charNgrams: ngramLengthsSchema,
  maxFeatures: z.int().min(1).max(65_536),
});

/**
 * Creates the preprocessor of a kind:
 *
 * - `hashed-ngrams` returns `ids` INT32 [batch, features].
 * - `wordpiece` returns `input_ids` and `attention_mask` INT64 [batch, tokens].
 *
 * Rows are padded with 0 to the longest row of the batch.
 * @throws preprocessor_invalid if the artifact does not match `kind`
 */
export function createTextPreprocessor(config: PreprocessorConfig): Preprocessor {
  try {
    switch (config.kind) {
      case "hashed-ngrams": {
        const hashNgrams = createNgramHasher(parseArtifact(hashedNgramsSchema, config));
        return {
          padding: ZERO_PADDING,
          encode: (inputs) => toNgramTensors(inputs.map((input) => hashNgrams(expectText(input)))),
        };
      }
      case "wordpiece": {
        const { encodeText, encodeTokens } = createWordpieceTokenizer(
          parseArtifact(tokenizerJsonSchema, config),
          config.maxTokens,
        );
        const encodeInput = (input: TaskInput) =>
          input.kind === "tokens" ? encodeTokens(input.ids) : encodeText(expectText(input));
        return {
          padding: ZERO_PADDING,
          encode: (inputs) => toTokenTensors(inputs.map(encodeInput)),
        };
      }
      default:
        throw taskErrors.preprocessorInvalid(config.kind, ["it does not accept texts"]);
    }
  } catch (error) {
    throw error instanceof EdgeTierError
      ? error
      : taskErrors.preprocessorInvalid(config.kind, [reasonOf(error)]);
  }
}

export function expectText(input: TaskInput): string {
  if (input.kind !== "text")
    throw new TypeError(`expected a text input; found an input of kind ${input.kind}`);
  return input.text;
}

function parseArtifact<Schema extends z.ZodType>(
  schema: Schema,
  config: TextPreprocessorConfig,
): z.output<Schema> {
  const json: unknown = JSON.parse(
    new TextDecoder("utf-8", { fatal: true }).decode(config.artifact),
  );
  const parsed = schema.safeParse(json);
  if (!parsed.success)
    throw taskErrors.preprocessorInvalid(
      config.kind,
      formatZodIssues(parsed.error).slice(0, MAX_PROBLEMS),
    );
  return parsed.data;
}

function toNgramTensors(rows: readonly Int32Array[]): NamedTensors {
  const width = maxRowLength(rows);
  const ids = new Int32Array(rows.length * width);
  rows.forEach((row, index) => ids.set(row, index * width));
  return { ids: { datatype: "INT32", shape: [rows.length, width], data: ids } };
}

function toTokenTensors(rows: readonly (readonly number[])[]): NamedTensors {
  const width = maxRowLength(rows);
  const shape = [rows.length, width];
  const ids = new BigInt64Array(rows.length * width);
  const mask = new BigInt64Array(rows.length * width);
  rows.forEach((row, index) => {
    const start = index * width;
    for (let column = 0; column < row.length; column++)
      ids[start + column] = BigInt(row[column] ?? 0);
    mask.fill(1n, start, start + row.length);
  });
  return {
    input_ids: { datatype: "INT64", shape, data: ids },
    attention_mask: { datatype: "INT64", shape, data: mask },
  };
}

const maxRowLength = (rows: readonly ArrayLike<number>[]) =>
  rows.reduce((width, row) => Math.max(width, row.length), 0);
