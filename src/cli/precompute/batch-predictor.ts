// Batch predictor: sends one batch of a precomputation to an edge and classifies the response.

import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";
import { tryParseJson } from "../../core/json.ts";
import { cliErrors } from "../errors.ts";
import type { PrecomputeInput } from "./inputs.ts";

export type BatchResult =
  | {
      readonly kind: "answered";
      /** Number of inputs that no cache answered. */
      readonly computed: number;
      /** Indexes of degraded answers, which are not cached. */
      readonly degraded: readonly number[];
    }
  | {
      readonly kind: "retry-later";
      readonly retryAfterMs: number | undefined;
      readonly code: string;
      readonly detail: string;
    }
  | { readonly kind: "rejected"; readonly code: string; readonly detail: string };

export interface BatchPredictor {
  /** Resolves a reference to its current version, which all batches then use. @throws edge_unreachable, or the edge's error */
  resolve(ref: string): Promise<{ readonly model: string; readonly version: number }>;
  predictBatch(ref: string, inputs: readonly PrecomputeInput[]): Promise<BatchResult>;
}

const TIMEOUT_MS = 60_000;
/** Statuses that are also retried without problem details, because a proxy before the edge may send them. */
const RETRYABLE_STATUSES = new Set([429, 502, 503, 504]);
const detailSchema = z.object({ model: z.string(), version: z.int() });
const responseSchema = z.object({
  outputs: z.array(z.object({ degraded: z.boolean() })),
  usage: z.object({ tiers: z.array(z.object({ inputs: z.int() })) }),
});
const problemSchema = z.object({
  code: z.string(),
  detail: z.string(),
  remedy: z.string().default("Read the edge's log."),
  retryable: z.boolean().default(false),
});

interface BatchPredictorOptions {
  readonly url: string;
  readonly apiKey: string | undefined;
  /** Recomputes cached answers. */
  readonly refresh: boolean;
}

interface EdgeResponse {
  readonly response: Response;
  readonly body: unknown;
}

export function createBatchPredictor({
  url,
  apiKey,
  refresh,
}: BatchPredictorOptions): BatchPredictor {
  const send = async (path: string, init: RequestInit = {}) =>
    await sendRequest({ url, apiKey }, path, init);

  return {
    async resolve(ref) {
      const { response, body } = await send(`/v1/models/${encodeURIComponent(ref)}`);
      const problem = problemSchema.safeParse(body).data;
      if (!response.ok)
        throw cliErrors.edgeRefused(
          problem?.code ?? "edge_refused",
          response.status,
          problem?.detail ?? describeStatus(response),
          problem?.remedy ?? "Read the edge's log.",
        );
      const detail = detailSchema.safeParse(body).data;
      if (detail === undefined)
        throw cliErrors.edgeUnreachable(url, "the response is not from an EdgeTier edge");
      return detail;
    },

    async predictBatch(ref, inputs) {
      try {
        const sent = await send(`/v1/models/${encodeURIComponent(ref)}/predict`, {
          method: "POST",
          body: JSON.stringify({ inputs, parameters: { cache: refresh ? "refresh" : "use" } }),
        });
        return classifyResponse(sent);
      } catch (error) {
        return {
          kind: "retry-later",
          retryAfterMs: undefined,
          code: "edge_unreachable",
          detail: reasonOf(error),
        };
      }
    },
  };
}

async function sendRequest(
  { url, apiKey }: Pick<BatchPredictorOptions, "url" | "apiKey">,
  path: string,
  init: RequestInit,
): Promise<EdgeResponse> {
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  try {
    const response = await fetch(`${url}${path}`, {
      ...init,
      headers: { ...authorization, "content-type": "application/json" },
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { response, body: tryParseJson(await response.text()) };
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

const describeStatus = ({ status }: Response): string =>
  `The edge responded with status ${status}.`;

function classifyResponse({ response, body }: EdgeResponse): BatchResult {
  const answer = responseSchema.safeParse(body).data;
  if (response.ok && answer !== undefined) {
    const degraded = answer.outputs.flatMap((output, index) => (output.degraded ? [index] : []));
    return { kind: "answered", computed: answer.usage.tiers[0]?.inputs ?? 0, degraded };
  }
  const { code, detail, retryable } = problemSchema.safeParse(body).data ?? {
    code: "edge_refused",
    detail: describeStatus(response),
    retryable: false,
  };
  if (!retryable && !RETRYABLE_STATUSES.has(response.status))
    return { kind: "rejected", code, detail };
  const seconds = response.headers.get("retry-after") ?? "";
  return {
    kind: "retry-later",
    retryAfterMs: /^[0-9]+$/.test(seconds) ? 1_000 * Number(seconds) : undefined,
    code,
    detail,
  };
}
