// Wire format of POST /v1/embeddings. It is OpenAI's format, so OpenAI clients work unchanged. The schemas validate
// requests and generate the OpenAPI document.

import * as z from "zod";
import { toBase64 } from "../core/base64.ts";
import { byteView } from "../core/bytes.ts";
import type { EdgeTierError } from "../core/errors.ts";
import { toProblemDetails, problemDetailsSchema } from "./problem-details.ts";

export const EMBEDDINGS_PATH = "/v1/embeddings";

const tokenIdsSchema = z.array(z.int().min(0)).min(1);
const inputSchema = z
  .union(
    [z.string(), z.array(z.string()).min(1), tokenIdsSchema, z.array(tokenIdsSchema).min(1)],
    "expected a string, token ids, or an array of either; none may be empty",
  )
  .meta({
    description:
      "One text, or its token ids from the model's own tokenizer, or an array with elements of one of these kinds.",
    examples: ["how do i freeze my account"],
    // The document's type is slightly wider, because client generators emit broken code for a union with nested arrays.
    anyOf: [
      { type: "string" },
      {
        type: "array",
        minItems: 1,
        items: {
          oneOf: [
            { type: "string" },
            { type: "integer", minimum: 0 },
            { type: "array", items: { type: "integer", minimum: 0 } },
          ],
        },
      },
    ],
  });

export const embeddingsRequestSchema = z
  .strictObject({
    input: inputSchema,
    model: z
      .string()
      .min(1)
      .optional()
      .meta({
        description:
          "`name`, `name@version` or `name@alias`. Defaults to the deployment's default model.",
        examples: ["minilm"],
      }),
    encoding_format: z
      .enum(["float", "base64"])
      .default("float")
      .meta({ description: "Encoding of the vectors. `base64` is little-endian FP32." }),
    dimensions: z.int().min(1).optional().meta({
      description: "Truncates each vector to its first N numbers, and rescales it to length 1.",
    }),
    user: z.string().optional().meta({ description: "Ignored." }),
    cache: z.enum(["use", "bypass", "refresh"]).optional().meta({
      description:
        "EdgeTier extension that replaces the header `cache-control`: `bypass` skips the cache; `refresh` recomputes and stores the vectors.",
    }),
  })
  .meta({ id: "EmbeddingsRequest" });
export type EmbeddingsRequest = z.output<typeof embeddingsRequestSchema>;

export const embeddingsResponseSchema = z
  .object({
    object: z.literal("list"),
    data: z.array(
      z
        .object({
          object: z.literal("embedding"),
          index: z.int(),
          embedding: z.union([z.array(z.number()), z.base64()]),
        })
        .meta({ id: "Embedding" }),
    ),
    model: z
      .string()
      .meta({ description: "`name@version`. Vectors of different versions are not comparable." }),
    usage: z.object({
      prompt_tokens: z
        .int()
        .meta({ description: "Number of tokens, including special tokens, after truncation." }),
      total_tokens: z.int(),
    }),
  })
  .meta({ id: "EmbeddingsResponse" });
export type EmbeddingsResponse = z.output<typeof embeddingsResponseSchema>;

/** Problem details with the extension member `error` (RFC 9457, section 3.2), which OpenAI clients read. */
export const embeddingsProblemSchema = problemDetailsSchema
  .extend({
    error: z.object({ message: z.string(), type: z.string(), param: z.null(), code: z.string() }),
  })
  .meta({ id: "EmbeddingsProblem" });

export function toEmbeddingsProblem(
  error: EdgeTierError,
  requestId: string,
): z.output<typeof embeddingsProblemSchema> {
  const { code, message, status } = error;
  return {
    ...toProblemDetails(error, requestId),
    error: {
      message,
      type: status >= 500 ? "server_error" : "invalid_request_error",
      param: null,
      code,
    },
  };
}

/** Lists the inputs, one element each. A list of token ids is one input, like a text. */
export function listInputs({ input }: EmbeddingsRequest): readonly unknown[] {
  return typeof input === "string" || typeof input[0] === "number" ? [input] : input;
}

export interface EmbeddingsResult {
  readonly model: string;
  readonly version: number;
  readonly vectors: readonly Float32Array[];
  readonly tokenCount: number;
}

export function toEmbeddingsResponse(
  { model, version, vectors, tokenCount }: EmbeddingsResult,
  format: EmbeddingsRequest["encoding_format"],
): EmbeddingsResponse {
  const encode = (vector: Float32Array) =>
    format === "base64" ? toBase64(byteView(vector)) : Array.from(vector, roundToFloat32Digits);
  return {
    object: "list",
    data: vectors.map((vector, index) => ({
      object: "embedding",
      index,
      embedding: encode(vector),
    })),
    model: `${model}@${version}`,
    usage: { prompt_tokens: tokenCount, total_tokens: tokenCount },
  };
}

/** Nine digits identify every FP32 number; its FP64 form would take twice as many characters. */
const roundToFloat32Digits = (value: number): number => Number(value.toPrecision(9));
