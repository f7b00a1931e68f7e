// The wire format of POST /v1/embeddings: OpenAI's, so that its clients work unchanged. These schemas validate requests and make
// the OpenAPI document.

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
    "expected a text, token ids, or an array of either, none of them empty",
  )
  .meta({
    description:
      "One text, or the ids of its tokens by the model's own tokenizer; or an array of either, all of one kind.",
    examples: ["how do i freeze my account"],
    // For the document, a little wider than it is: generators make no code that compiles of a union with arrays of arrays.
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
          "`name`, `name@version` or `name@alias`; the deployment's default where it is left out.",
        examples: ["minilm"],
      }),
    encoding_format: z
      .enum(["float", "base64"])
      .default("float")
      .meta({ description: "`base64`: FP32, little-endian." }),
    dimensions: z
      .int()
      .min(1)
      .optional()
      .meta({ description: "Only so many of a vector's first numbers, scaled to length 1 again." }),
    user: z.string().optional().meta({ description: "Not heeded." }),
    cache: z.enum(["use", "bypass", "refresh"]).optional().meta({
      description:
        "EdgeTier's own, in place of the header `cache-control`: `bypass` neither reads nor stores; `refresh` stores new vectors.",
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
      .meta({ description: "`name@version`: vectors of different versions cannot be compared." }),
    usage: z.object({
      prompt_tokens: z
        .int()
        .meta({ description: "Special tokens included, without those that were cut off." }),
      total_tokens: z.int(),
    }),
  })
  .meta({ id: "EmbeddingsResponse" });
export type EmbeddingsResponse = z.output<typeof embeddingsResponseSchema>;

/** Problem details, and in them as an extension member (RFC 9457, section 3.2) what OpenAI's clients read. */
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

/** One element an input: token ids are one input, as a text is. */
export function listInputs({ input: given }: EmbeddingsRequest): readonly unknown[] {
  return typeof given === "string" || typeof given[0] === "number" ? [given] : given;
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
  const encoded = (vector: Float32Array) =>
    format === "base64" ? toBase64(byteView(vector)) : Array.from(vector, roundToFloat32Digits);
  return {
    object: "list",
    data: vectors.map((vector, index) => ({
      object: "embedding",
      index,
      embedding: encoded(vector),
    })),
    model: `${model}@${version}`,
    usage: { prompt_tokens: tokenCount, total_tokens: tokenCount },
  };
}

/** Nine digits tell every FP32 number from all others; its FP64 form would take twice as many characters. */
const roundToFloat32Digits = (value: number): number => Number(value.toPrecision(9));
