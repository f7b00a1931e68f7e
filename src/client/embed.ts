// Embeddings: sends texts and decodes their vectors. Vectors cross the network as base64 of FP32, which takes 5.3 bytes
// a number; JSON numbers take about 11.

import { fromBase64 } from "../core/base64.ts";
import type { EmbeddingsRequest, EmbeddingsResponse } from "../protocol/embeddings.ts";
import { type CallOptions, type Connection, readJsonBody, send } from "./connection.ts";
import { clientError } from "./errors.ts";

/**
 * Options of {@link embed}.
 *
 * @example
 * import { connect, embed, type EmbedOptions } from "edgetier/client";
 *
 * const options: EmbedOptions = { model: "minilm", dimensions: 128 };
 * await embed(connect({ url: "https://predict.example.com" }), "what is my balance", options);
 */
export interface EmbedOptions
  extends CallOptions, Partial<Pick<EmbeddingsRequest, "model" | "dimensions" | "cache">> {}

/**
 * Result of {@link embed}.
 *
 * @example
 * import { connect, embed, type Embeddings } from "edgetier/client";
 *
 * const connection = connect({ url: "https://predict.example.com" });
 * const { vectors, model }: Embeddings = await embed(connection, ["one text", "another"]);
 */
export interface Embeddings {
  /** One vector for each input, in the order of the inputs. */
  readonly vectors: readonly Float32Array[];
  /** `name@version`. Vectors of different versions are not comparable. */
  readonly model: string;
  /** Number of tokens of all inputs. */
  readonly tokens: number;
}

/**
 * Computes vectors of texts.
 *
 * @param input a text, the ids of its tokens, or an array of either
 * @throws EdgeTierError, or the reason of the caller's signal
 * @example
 * import { connect, embed } from "edgetier/client";
 *
 * const connection = connect({ url: "https://predict.example.com" });
 * const { vectors } = await embed(connection, ["one text", "another"], { model: "minilm" });
 */
export async function embed(
  connection: Connection,
  input: EmbeddingsRequest["input"],
  options: EmbedOptions = {},
): Promise<Embeddings> {
  const { model, dimensions, cache } = options;
  const body = JSON.stringify({ input, model, dimensions, cache, encoding_format: "base64" });
  const response = await send(
    connection,
    "/v1/embeddings",
    { method: "POST", headers: { "content-type": "application/json" }, body },
    readJsonBody<EmbeddingsResponse>,
    options,
  );
  return {
    vectors: response.data.map(({ embedding }) => decodeVector(embedding)),
    model: response.model,
    tokens: response.usage.total_tokens,
  };
}

function decodeVector(embedding: string | number[]): Float32Array {
  if (typeof embedding !== "string") return Float32Array.from(embedding);
  const bytes = fromBase64(embedding);
  if (bytes === undefined)
    throw clientError(
      "invalid_answer",
      "A vector is not base64.",
      "Check that the address is an EdgeTier edge's.",
    );
  return new Float32Array(bytes.buffer);
}
