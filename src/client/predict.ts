// Predictions: sends texts and images, and reads labels. With a response cache, texts are revalidated by their ETags.

import { toBase64 } from "../core/base64.ts";
import type { PredictParameters, PredictResponse } from "../protocol/predict.ts";
import {
  type CallOptions,
  type Connection,
  readJsonBody,
  type OutgoingRequest,
  parseJsonText,
  send,
} from "./connection.ts";
import { clientError, isOutage } from "./errors.ts";
import { withCurrentNames } from "./renamed-options.ts";
import type { ResponseCache } from "./response-cache.ts";

/**
 * Input of {@link predict}: a text, or a JPEG or PNG file.
 *
 * @example
 * import { connect, predict, type PredictInput } from "edgetier/client";
 *
 * const inputs: PredictInput[] = ["what is my balance", "freeze my card"];
 * await predict(connect({ url: "https://predict.example.com" }), "intent", inputs);
 */
export type PredictInput = string | Uint8Array<ArrayBuffer> | ArrayBuffer | Blob;

/**
 * Options of {@link predict}.
 *
 * @example
 * import { connect, predict, type PredictOptions } from "edgetier/client";
 *
 * const options: PredictOptions = { topK: 1, deadlineMs: 300 };
 * await predict(connect({ url: "https://predict.example.com" }), "intent", "hello", options);
 */
export interface PredictOptions extends CallOptions, Partial<PredictParameters> {
  /** Cache for responses of single texts, which are then revalidated by their ETags. */
  readonly responseCache?: ResponseCache | undefined;
  /** Whether a cached response is returned if the server is unreachable or fails (RFC 5861). */
  readonly staleIfError?: boolean | undefined;
  /** @deprecated Use `responseCache`. */
  readonly answers?: ResponseCache | undefined;
  /** @deprecated Use `staleIfError`. */
  readonly offline?: boolean | undefined;
}

/**
 * Output for one input: label, scores and tier.
 *
 * @example
 * import type { PredictOutput } from "edgetier/client";
 *
 * const format = ({ label, score }: PredictOutput): string => `${label}: ${score.toFixed(2)}`;
 */
export type PredictOutput = PredictResponse["outputs"][number];

/**
 * Result of {@link predict}, with one output for each input, in the order of the inputs.
 *
 * @example
 * import { connect, predict, type Prediction } from "edgetier/client";
 *
 * const connection = connect({ url: "https://predict.example.com" });
 * const prediction: Prediction = await predict(connection, "intent", ["hello", "goodbye"]);
 * console.log(prediction.source, prediction.outputs.map(({ label }) => label));
 */
export interface Prediction<
  Outputs extends readonly PredictOutput[] = readonly PredictOutput[],
> extends Omit<PredictResponse, "outputs"> {
  readonly outputs: Outputs;
  readonly requestId: string | undefined;
  /**
   * Origin of the outputs. `client`: this client's cache, confirmed by the server. `offline`: this client's cache,
   * without a server. `device`: a model on this device. Others: the edge's cache status.
   */
  readonly source: "l1" | "l2" | "cdn" | "miss" | "bypass" | "client" | "offline" | "device";
}

/**
 * Prediction type by input type: a single input has exactly one output.
 *
 * @example
 * import type { PredictionFor } from "edgetier/client";
 *
 * const labelOf = (prediction: PredictionFor<string>): string => prediction.outputs[0].label;
 */
export type PredictionFor<Input> = Input extends readonly unknown[]
  ? Prediction
  : Prediction<readonly [PredictOutput]>;

/** Maximum number of characters of a text that is sent in a URL. */
const MAX_URL_TEXT_LENGTH = 1_000;

/**
 * Classifies texts or images.
 *
 * @param model `name`, `name@version` or `name@alias`
 * @param input one input, or an array of them
 * @throws EdgeTierError, or the reason of the caller's signal
 * @example
 * import { connect, predict } from "edgetier/client";
 *
 * const connection = connect({ url: "https://predict.example.com" });
 * const { outputs } = await predict(connection, "intent", "what is my balance", { topK: 1 });
 * console.log(outputs[0].label, outputs[0].confidence);
 */
export async function predict<const Input extends PredictInput | readonly PredictInput[]>(
  connection: Connection,
  model: string,
  input: Input,
  options: PredictOptions = {},
): Promise<PredictionFor<Input>> {
  const current = withCurrentNames(options);
  const { topK, maxTier, cache, responseCache } = current;
  const path = `/v1/models/${encodeURIComponent(model)}/predict`;
  const parameters = { topK, maxTier, cache };
  if (
    responseCache !== undefined &&
    typeof input === "string" &&
    input.length <= MAX_URL_TEXT_LENGTH &&
    input.isWellFormed?.() !== false &&
    (cache ?? "use") === "use"
  ) {
    return (await predictWithCache(
      connection,
      `${path}?${encodeQuery({ input, ...parameters })}`,
      responseCache,
      current,
    )) as PredictionFor<Input>;
  }
  const [outgoing, search] = await encodePredictRequest(input, parameters);
  return (await send(
    connection,
    search === "" ? path : `${path}?${search}`,
    outgoing,
    async (response) => toPrediction(await readJsonBody(response), response),
    current,
  )) as PredictionFor<Input>;
}

async function predictWithCache(
  connection: Connection,
  path: string,
  responseCache: ResponseCache,
  options: PredictOptions,
): Promise<Prediction> {
  const key = connection.url + path;
  const cached = await responseCache.get(key);
  try {
    return await send(
      connection,
      path,
      cached === undefined ? {} : { headers: { "if-none-match": cached.etag } },
      async (response) => {
        if (response.status === 304 && cached !== undefined)
          return { ...toPrediction(parseJsonText(cached.body), response), source: "client" };
        const body = await response.text();
        const prediction = toPrediction(parseJsonText(body), response);
        const etag = response.headers.get("etag");
        if (etag !== null) await responseCache.set(key, { etag, body });
        return prediction;
      },
      options,
    );
  } catch (error) {
    if (options.staleIfError === true && cached !== undefined && isOutage(error))
      return {
        ...parseJsonText<PredictResponse>(cached.body),
        requestId: undefined,
        source: "offline",
      };
    throw error;
  }
}

const toPrediction = (body: PredictResponse, { headers }: Response): Prediction => ({
  ...body,
  requestId: headers.get("x-request-id") ?? undefined,
  source: (headers.get("x-edgetier-cache") ?? "miss") as Prediction["source"],
});

/** A single image is the body itself, with its parameters in the query. Other inputs are JSON. */
async function encodePredictRequest(
  input: PredictInput | readonly PredictInput[],
  parameters: object,
): Promise<[OutgoingRequest, search: string]> {
  if (typeof input === "string" || Array.isArray(input)) {
    const inputs = Array.isArray(input) ? await Promise.all(input.map(encodeJsonInput)) : input;
    return [
      {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ inputs, parameters }),
      },
      "",
    ];
  }
  const image = input as Exclude<PredictInput, string>;
  return [
    { method: "POST", headers: { "content-type": detectMediaType(image) }, body: image },
    encodeQuery(parameters),
  ];
}

async function encodeJsonInput(input: PredictInput): Promise<unknown> {
  if (typeof input === "string") return input;
  return {
    b64: toBase64(new Uint8Array("arrayBuffer" in input ? await input.arrayBuffer() : input)),
  };
}

/** @throws invalid_input */
function detectMediaType(image: Exclude<PredictInput, string>): string {
  if ("arrayBuffer" in image && image.type !== "") return image.type;
  if ("arrayBuffer" in image)
    throw clientError(
      "invalid_input",
      "The blob has no type.",
      "Set its type to image/jpeg or image/png.",
    );
  return new Uint8Array(image)[0] === 0xff ? "image/jpeg" : "image/png";
}

/** Replaces URLSearchParams, which is incomplete in React Native. */
const encodeQuery = (fields: object): string =>
  Object.entries(fields)
    .flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}=${encodeURIComponent(String(value))}`],
    )
    .join("&");
