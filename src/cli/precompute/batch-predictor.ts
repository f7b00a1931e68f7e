// One request of a precomputation to an edge, and what its answer says of caches.

import { cliErrors } from "../errors.ts";
import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";
import type { PrecomputeInput } from "./inputs.ts";

export type BatchResult =
  /** @param computed of the inputs, the rest was in a cache; @param degraded indexes of answers that no cache keeps */
  | { readonly kind: "answered"; readonly computed: number; readonly degraded: readonly number[] }
  /** Another time it may be answered. */
  | {
      readonly kind: "retry-later";
      readonly retryAfterMs: number | undefined;
      readonly code: string;
      readonly detail: string;
    }
  | { readonly kind: "rejected"; readonly code: string; readonly detail: string };

export interface BatchPredictor {
  /** The version that a reference names now: all inputs are asked of it, whatever becomes of the alias. @throws edge_unreachable, and what the edge says */
  resolve(ref: string): Promise<{ readonly model: string; readonly version: number }>;
  predictBatch(ref: string, inputs: readonly PrecomputeInput[]): Promise<BatchResult>;
}

const TIMEOUT_MS = 60_000;
/** Also of what stands before an edge, and sends no problem details. */
const RETRYABLE_STATUSES = new Set([429, 502, 503, 504]);
const detailSchema = z.object({ model: z.string(), version: z.int() });
const answerSchema = z.object({
  outputs: z.array(z.object({ degraded: z.boolean() })),
  usage: z.object({ tiers: z.array(z.object({ inputs: z.int() })) }),
});
const problemSchema = z.object({
  code: z.string(),
  detail: z.string(),
  remedy: z.string().default("See the edge's log."),
  retryable: z.boolean().default(false),
});

export function createBatchPredictor({
  url,
  apiKey,
  refresh,
}: {
  readonly url: string;
  readonly apiKey: string | undefined;
  readonly refresh: boolean;
}): BatchPredictor {
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };

  async function send(
    path: string,
    init: RequestInit = {},
  ): Promise<{ readonly response: Response; readonly body: unknown }> {
    try {
      const response = await fetch(`${url}${path}`, {
        ...init,
        headers: { ...authorization, "content-type": "application/json" },
        redirect: "error",
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      return { response, body: parseJson(await response.text()) };
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

  return {
    async resolve(ref) {
      const { response, body } = await send(`/v1/models/${encodeURIComponent(ref)}`);
      const problem = problemSchema.safeParse(body).data;
      if (!response.ok)
        throw cliErrors.edgeRefused(
          problem?.code ?? "edge_refused",
          response.status,
          problem?.detail ?? `The edge answered ${response.status}.`,
          problem?.remedy ?? "See the edge's log.",
        );
      const detail = detailSchema.safeParse(body).data;
      if (detail === undefined)
        throw cliErrors.edgeUnreachable(url, "what answers there is not an EdgeTier edge");
      return detail;
    },

    async predictBatch(ref, inputs) {
      let sent: Awaited<ReturnType<typeof send>>;
      try {
        sent = await send(`/v1/models/${encodeURIComponent(ref)}/predict`, {
          method: "POST",
          body: JSON.stringify({ inputs, parameters: { cache: refresh ? "refresh" : "use" } }),
        });
      } catch (error) {
        return {
          kind: "retry-later",
          retryAfterMs: undefined,
          code: "edge_unreachable",
          detail: reasonOf(error),
        };
      }
      const { response, body } = sent;
      const answer = answerSchema.safeParse(body).data;
      if (response.ok && answer !== undefined) {
        const degraded = answer.outputs.flatMap((output, index) =>
          output.degraded ? [index] : [],
        );
        return { kind: "answered", computed: answer.usage.tiers[0]?.inputs ?? 0, degraded };
      }
      const { code, detail, retryable } = problemSchema.safeParse(body).data ?? {
        code: "edge_refused",
        detail: `The edge answered ${response.status}.`,
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
    },
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
