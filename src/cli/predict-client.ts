// Prediction client: requests one prediction from an edge and formats it for the terminal.

import * as z from "zod";
import { reasonOf } from "../core/errors.ts";
import { tryParseJson } from "../core/json.ts";
import { detectImageFormat } from "../tasks/image/image-header.ts";
import { cliErrors } from "./errors.ts";

const TIMEOUT_MS = 60_000;

/** An input as text, or as the bytes of a file. */
export type PredictionInput =
  | { readonly text: string }
  | { readonly file: Uint8Array<ArrayBuffer> };

const responseSchema = z.object({
  model: z.string(),
  version: z.number(),
  outputs: z
    .array(
      z.object({
        label: z.string(),
        score: z.number(),
        tier: z.string(),
        confidence: z.number(),
        degraded: z.boolean(),
      }),
    )
    .min(1),
});
const problemSchema = z.object({
  code: z.string().default("edge_refused"),
  detail: z.string(),
  remedy: z.string().default("Read the edge's log."),
});

export interface PredictionResult {
  readonly model: string;
  readonly version: number;
  readonly label: string;
  readonly score: number;
  readonly tier: string;
  readonly confidence: number;
  readonly degraded: boolean;
  /** Time from sending the request to the last byte of the response. */
  readonly latencyMs: number;
  /** Cache layer that answered: l1, l2 or cdn; else miss or bypass. */
  readonly cache: string;
}

export interface RequestOptions {
  readonly apiKey?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/**
 * Requests one prediction.
 * @param model a reference such as `intent` or `intent@3`
 * @throws edge_unreachable, or the error of the edge's response
 */
export async function requestPrediction(
  url: string,
  model: string,
  input: PredictionInput,
  options: RequestOptions = {},
): Promise<PredictionResult> {
  const startedAtMs = performance.now();
  const { response, body } = await send(url, model, input, options);
  const latencyMs = Math.round((performance.now() - startedAtMs) * 10) / 10;
  if (!response.ok) {
    const problem = problemSchema.safeParse(body);
    const { code, detail, remedy } = problem.data ?? {
      code: "edge_refused",
      detail: `The edge responded with status ${response.status}.`,
      remedy: "Read the edge's log.",
    };
    throw cliErrors.edgeRefused(code, response.status, detail, remedy);
  }
  const parsed = responseSchema.safeParse(body);
  const output = parsed.data?.outputs[0];
  if (!parsed.success || output === undefined)
    throw cliErrors.edgeUnreachable(url, "the response is not from an EdgeTier edge");
  const { model: name, version } = parsed.data;
  return {
    model: name,
    version,
    ...output,
    latencyMs,
    cache: response.headers.get("x-edgetier-cache") ?? "miss",
  };
}

async function send(
  url: string,
  model: string,
  input: PredictionInput,
  { apiKey, headers, signal = AbortSignal.timeout(TIMEOUT_MS) }: RequestOptions,
) {
  const [mediaType, content] =
    "text" in input
      ? ["application/json", JSON.stringify({ inputs: input.text })]
      : [mediaTypeOf(input.file), input.file];
  try {
    const response = await fetch(`${url}/v1/models/${encodeURIComponent(model)}/predict`, {
      method: "POST",
      headers: {
        ...headers,
        "content-type": mediaType,
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
      body: content,
      signal,
    });
    const body = await response.text();
    return { response, body: tryParseJson(body) };
  } catch (error) {
    throw cliErrors.edgeUnreachable(
      url,
      error instanceof Error && error.cause instanceof Error
        ? reasonOf(error.cause)
        : reasonOf(error),
      error,
    );
  }
}

/** Files other than JPEG and PNG are sent as text, so that the edge reports their problem. */
function mediaTypeOf(file: Uint8Array): string {
  const format = detectImageFormat(file);
  return format === undefined ? "text/plain" : `image/${format}`;
}

export function formatPredictionRows(prediction: PredictionResult): [string, string][] {
  const { label, score, tier, confidence, degraded, latencyMs, cache, model, version } = prediction;
  return [
    ["label", label],
    ["score", score.toFixed(4)],
    ["tier", `${tier}${degraded ? " (degraded: a better tier was not available)" : ""}`],
    ["confidence", confidence.toFixed(4)],
    ["latency", `${latencyMs} ms`],
    ["cache", cache],
    ["model", `${model}@${version}`],
  ];
}
