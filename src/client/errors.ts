// What the client rejects with: the server's problem details (RFC 9457), or what kept an answer from coming.

import type { ProblemDetails } from "../protocol/problem-details.ts";

/** `network`: no connection, or one that broke before the answer was whole; `timeout`: the time was up; `invalid_answer`: not EdgeTier answered. */
export type ClientFault = "network" | "timeout" | "aborted" | "invalid_answer" | "invalid_input";

export interface EdgeTierErrorOptions {
  /** The server's `code`, such as `model_not_found`; `http_<status>` where it gave none; or a ClientFault. */
  readonly code: ClientFault | (string & {});
  /** 0 where nobody answered. */
  readonly status: number;
  readonly detail: string;
  readonly remedy: string;
  /** To look it up in the server's log. */
  readonly requestId?: string | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** When the server wants it again; undefined where it does not say. */
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

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
  code: ClientFault,
  detail: string,
  remedy: string,
  cause?: unknown,
): EdgeTierError =>
  new EdgeTierError({ code, status: 0, detail, remedy, retryable: code === "network", cause });

/** Overload: the only refusals after which asking again helps. */
const isOverload = (status: number): boolean => status === 429 || status === 503;

/** Whether somebody else's answer may take the place of the server's: it could not be reached, or failed. */
export const isOutage = (error: unknown): error is EdgeTierError =>
  error instanceof EdgeTierError &&
  (error.status >= 500 ||
    error.status === 429 ||
    error.code === "network" ||
    error.code === "timeout");

/** @param nowMs for a `retry-after` that is a date */
export async function readErrorResponse(response: Response, nowMs: number): Promise<EdgeTierError> {
  const { status, headers } = response;
  const problem = parseProblem(await response.text());
  const {
    code = `http_${status}`,
    detail = `The server answered ${status}.`,
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

/** Of /v1, or the Open Inference Protocol's `{"error"}`. */
function parseProblem(text: string): Partial<ProblemDetails> {
  try {
    const { error, ...problem } = JSON.parse(text);
    return typeof error === "string" ? { detail: error } : problem;
  } catch {
    return {}; // of a proxy on the way
  }
}

function parseRetryAfter(retryAfter: string | null, nowMs: number): number | undefined {
  if (!retryAfter) return undefined;
  const seconds = Number(retryAfter);
  const delayMs = Number.isNaN(seconds) ? Date.parse(retryAfter) - nowMs : seconds * 1_000;
  return delayMs >= 0 ? delayMs : undefined;
}
