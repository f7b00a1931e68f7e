// Predictions: texts and images to labels, and with a store of answers, by ETag.

import { toBase64 } from "../core/base64.ts";
import type { PredictParameters, PredictResponse } from "../protocol/predict.ts";
import type { AnswerStore } from "./response-cache.ts";
import {
  type CallOptions,
  type Connection,
  readJsonBody,
  type OutgoingRequest,
  parseJsonText,
  send,
} from "./connection.ts";
import { clientError, isOutage } from "./errors.ts";

/** A text, or a JPEG or PNG file. */
export type PredictInput = string | Uint8Array<ArrayBuffer> | ArrayBuffer | Blob;

export interface PredictOptions extends CallOptions, Partial<PredictParameters> {
  /** Where single texts' answers are kept, to be asked for again by their ETag. */
  readonly answers?: AnswerStore | undefined;
  /** Whether a kept answer serves where the server cannot be reached, or fails. */
  readonly offline?: boolean | undefined;
}

export type PredictOutput = PredictResponse["outputs"][number];

/** One output for each input, in their order. */
export interface Prediction<
  Outputs extends readonly PredictOutput[] = readonly PredictOutput[],
> extends Omit<PredictResponse, "outputs"> {
  readonly outputs: Outputs;
  readonly requestId: string | undefined;
  /** `client`: kept here, and the server says that it holds still; `offline`: kept here, and nobody could be asked; `device`: computed here. */
  readonly source: "l1" | "l2" | "cdn" | "miss" | "bypass" | "client" | "offline" | "device";
}

export type PredictionOf<Input> = Input extends readonly unknown[]
  ? Prediction
  : Prediction<readonly [PredictOutput]>;

/** Of characters: what is longer is not sent in a URL. */
const MAX_URL_TEXT_LENGTH = 1_000;

/**
 * @param model `name`, `name@version` or `name@alias`
 * @param input one, or an array of them
 * @throws EdgeTierError, or the reason of the caller's signal
 */
export async function predict<const Input extends PredictInput | readonly PredictInput[]>(
  connection: Connection,
  model: string,
  input: Input,
  options: PredictOptions = {},
): Promise<PredictionOf<Input>> {
  const { topK, maxTier, cache, answers } = options;
  const path = `/v1/models/${encodeURIComponent(model)}/predict`;
  const parameters = { topK, maxTier, cache };
  if (
    answers !== undefined &&
    typeof input === "string" &&
    input.length <= MAX_URL_TEXT_LENGTH &&
    input.isWellFormed?.() !== false &&
    (cache ?? "use") === "use"
  ) {
    return (await predictWithCache(
      connection,
      `${path}?${encodeQuery({ input, ...parameters })}`,
      answers,
      options,
    )) as PredictionOf<Input>;
  }
  const [outgoing, search] = await encodePredictRequest(input, parameters);
  return (await send(
    connection,
    search === "" ? path : `${path}?${search}`,
    outgoing,
    async (response) => toPrediction(await readJsonBody(response), response),
    options,
  )) as PredictionOf<Input>;
}

async function predictWithCache(
  connection: Connection,
  path: string,
  answers: AnswerStore,
  options: PredictOptions,
): Promise<Prediction> {
  const key = connection.url + path;
  const kept = await answers.get(key);
  try {
    return await send(
      connection,
      path,
      kept === undefined ? {} : { headers: { "if-none-match": kept.etag } },
      async (response) => {
        if (response.status === 304 && kept !== undefined)
          return { ...toPrediction(parseJsonText(kept.body), response), source: "client" };
        const body = await response.text();
        const prediction = toPrediction(parseJsonText(body), response);
        const etag = response.headers.get("etag");
        if (etag !== null) await answers.set(key, { etag, body });
        return prediction;
      },
      options,
    );
  } catch (error) {
    if (options.offline === true && kept !== undefined && isOutage(error))
      return {
        ...parseJsonText<PredictResponse>(kept.body),
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

/** One image goes as it is, and its parameters in the query; anything else in JSON. */
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

function detectMediaType(image: Exclude<PredictInput, string>): string {
  if ("arrayBuffer" in image && image.type !== "") return image.type;
  if ("arrayBuffer" in image)
    throw clientError(
      "invalid_input",
      "The blob has no type.",
      "Give it one: image/jpeg or image/png.",
    );
  return new Uint8Array(image)[0] === 0xff ? "image/jpeg" : "image/png";
}

/** React Native's URLSearchParams is not complete. */
const encodeQuery = (fields: object): string =>
  Object.entries(fields)
    .flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}=${encodeURIComponent(String(value))}`],
    )
    .join("&");
