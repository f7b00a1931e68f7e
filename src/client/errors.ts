// Client errors: the server's problem details (RFC 9457), or the reason why no valid response arrived.

import type { ProblemDetails } from "../protocol/problem-details.ts";

/**
 * Codes of errors that the client finds itself. `network`: no connection, or one that broke before the response was
 * complete. `timeout`: the deadline or time limit passed. `aborted`: the caller's signal had no reason of its own.
 * `invalid_answer`: the response is not EdgeTier's. `invalid_input`: the input cannot be sent.
 *
 * @example
 * import { type ClientErrorCode, connect, EdgeTierError, listModels } from "edgetier/client";
 *
 * const offline: readonly ClientErrorCode[] = ["network", "timeout"];
 * await listModels(connect({ url: "https://predict.example.com" })).catch((error: unknown) => {
 *   if (error instanceof EdgeTierError) console.log(offline.some((code) => code === error.code));
 * });
 */
export type ClientErrorCode =
  | "network"
  | "timeout"
  | "aborted"
  | "invalid_answer"
  | "invalid_input";

export interface EdgeTierErrorOptions {
  /** The server's `code`, such as `model_not_found`, or `http_<status>` if it sent none; or a ClientErrorCode. */
  readonly code: ClientErrorCode | (string & {});
  /** HTTP status; 0 if there is no response. */
  readonly status: number;
  /** Problem, with the value. */
  readonly detail: string;
  /** Next step, as an imperative; may be empty. */
  readonly remedy: string;
  /** Id of the request in the server's log. */
  readonly requestId?: string | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** Delay that the server requests before a retry; undefined if it requests none. */
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/**
 * Error of every call. `message` contains `detail` and `remedy`. Only an abort by the caller's signal rejects with
 * another value: the signal's reason.
 *
 * @example
 * import { createClient, EdgeTierError } from "edgetier/client";
 *
 * const client = createClient({ url: "https://predict.example.com" });
 * try {
 *   await client.predict("intent", "what is my balance");
 * } catch (error) {
 *   if (error instanceof EdgeTierError) console.error(error.code, error.requestId);
 *   else throw error;
 * }
 */
export class EdgeTierError extends Error implements EdgeTierErrorOptions {
  override readonly name = "EdgeTierError";
  readonly code: string;
  readonly status: number;
  readonly detail: string;
  readonly remedy: string;
  readonly requestId: string | undefined;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor({
    code,
    status,
    detail,
    remedy,
    requestId,
    retryable,
    retryAfterMs,
    cause,
  }: EdgeTierErrorOptions) {
    super(`${detail} ${remedy}`.trim(), { cause });
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.remedy = remedy;
    this.requestId = requestId;
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
  }
}

export const clientError = (
  code: ClientErrorCode,
  detail: string,
  remedy: string,
  cause?: unknown,
): EdgeTierError =>
  new EdgeTierError({ code, status: 0, detail, remedy, retryable: code === "network", cause });

/** Overload is the only HTTP status class after which a retry helps. */
const isOverload = (status: number): boolean => status === 429 || status === 503;

/** Whether the server is unreachable or failed, so that another source's response may replace its own. */
export const isOutage = (error: unknown): error is EdgeTierError =>
  error instanceof EdgeTierError &&
  (error.status >= 500 ||
    error.status === 429 ||
    error.code === "network" ||
    error.code === "timeout");

/** @param nowMs reference for a `retry-after` that is a date */
export async function readErrorResponse(response: Response, nowMs: number): Promise<EdgeTierError> {
  const { status, headers } = response;
  const problem = parseProblem(await response.text());
  const {
    code = `http_${status}`,
    detail = `The server responded with status ${status}.`,
    remedy = "",
    instance,
    retryable = true,
  } = problem;
  const requestId = headers.get("x-request-id") ?? instance;
  return new EdgeTierError({
    code,
    status,
    detail,
    remedy,
    requestId,
    retryable: retryable && isOverload(status),
    retryAfterMs: parseRetryAfter(headers.get("retry-after"), nowMs),
  });
}

/** Reads problem details of `/v1`, or the Open Inference Protocol's `{"error"}`. */
function parseProblem(text: string): Partial<ProblemDetails> {
  try {
    const { error, ...problem } = JSON.parse(text);
    return typeof error === "string" ? { detail: error } : problem;
  } catch {
    return {}; // Proxies respond with HTML or text.
  }
}

function parseRetryAfter(retryAfter: string | null, nowMs: number): number | undefined {
  if (!retryAfter) return undefined;
  const seconds = Number(retryAfter);
  const delayMs = Number.isNaN(seconds) ? Date.parse(retryAfter) - nowMs : seconds * 1_000;
  return delayMs >= 0 ? delayMs : undefined;
}
