// Embeddings: texts to vectors, which cross the network as base64 of FP32: 5.3 bytes a number in place of 11 or so.

import { fromBase64 } from "../core/base64.ts";
import type { EmbeddingsRequest, EmbeddingsResponse } from "../protocol/embeddings.ts";
import { type CallOptions, type Connection, readJsonBody, send } from "./connection.ts";
import { clientError } from "./errors.ts";

export interface EmbedOptions
  extends CallOptions, Partial<Pick<EmbeddingsRequest, "model" | "dimensions" | "cache">> {}

export interface Embeddings {
  /** One for each input, in their order. */
  readonly vectors: readonly Float32Array[];
  /** `name@version`: vectors of different versions cannot be compared. */
  readonly model: string;
  /** Of all inputs together. */
  readonly tokens: number;
}

/** @param input a text, the ids of its tokens, or an array of either @throws EdgeTierError, or the reason of the caller's signal */
export async function embed(
  connection: Connection,
  input: EmbeddingsRequest["input"],
  options: EmbedOptions = {},
): Promise<Embeddings> {
  const { model, dimensions, cache } = options;
  const body = JSON.stringify({ input, model, dimensions, cache, encoding_format: "base64" });
  const answer = await send(
    connection,
    "/v1/embeddings",
    { method: "POST", headers: { "content-type": "application/json" }, body },
    readJsonBody<EmbeddingsResponse>,
    options,
  );
  return {
    vectors: answer.data.map(({ embedding }) => decodeVector(embedding)),
    model: answer.model,
    tokens: answer.usage.total_tokens,
  };
}

function decodeVector(embedding: string | number[]): Float32Array {
  if (typeof embedding !== "string") return Float32Array.from(embedding);
  const bytes = fromBase64(embedding);
  if (bytes === undefined) throw clientError("invalid_answer", "A vector is not base64.", "");
  return new Float32Array(bytes.buffer);
}
