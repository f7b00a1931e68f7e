// Connection: sends requests to one server within a deadline, retries them where that is safe, and throws one kind of
// error. It avoids APIs that browsers, React Native or Node lack: AbortSignal.any, TextDecoder, streams.

import { type Clock, systemClock } from "../core/clock.ts";
import { type AbortScope, createAbortScope } from "./abort-scope.ts";
import { EdgeTierError, clientError, readErrorResponse } from "./errors.ts";
import { withCurrentNames } from "./renamed-options.ts";

/**
 * Options of {@link connect}.
 *
 * @example
 * import { connect, type ConnectionOptions } from "edgetier/client";
 *
 * const options: ConnectionOptions = { url: "https://predict.example.com", maxRetries: 1 };
 * const connection = connect(options);
 */
export interface ConnectionOptions {
  /** Address of the edge, such as `https://predict.example.com`. */
  readonly url: string;
  /** API key or token. It is sent to the edge, and never to a region. */
  readonly key?: string | undefined;
  /** Default deadline of a call, in milliseconds from its start. */
  readonly deadlineMs?: number | undefined;
  /** Default limit on the duration of a call, including its retries. Defaults to 30,000. */
  readonly timeoutMs?: number | undefined;
  /**
   * Expected network round trip. The edge is told a deadline that is shorter by this value, so that its response arrives
   * in time. Defaults to 50.
   */
  readonly roundTripMs?: number | undefined;
  /** Maximum number of retries of a call. Defaults to 2. */
  readonly maxRetries?: number | undefined;
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
  /** Source of time, for tests. */
  readonly clock?: Clock | undefined;
  /** Source of retry jitter from 0 to 1, for tests. */
  readonly random?: (() => number) | undefined;
  /** @deprecated Use `roundTripMs`. */
  readonly wayMs?: number | undefined;
  /** @deprecated Use `maxRetries`. */
  readonly retries?: number | undefined;
}

/**
 * Options of a single call. They override the connection's.
 *
 * @example
 * import { type CallOptions, connect, listModels } from "edgetier/client";
 *
 * const options: CallOptions = { deadlineMs: 500, maxRetries: 0 };
 * const models = await listModels(connect({ url: "https://predict.example.com" }), options);
 */
export interface CallOptions {
  /**
   * Deadline in milliseconds from now, as the caller measures it. Each try sends the remaining time to the edge
   * (`x-deadline-ms`). The edge responds in time with its best output so far, marked as degraded. After the deadline the
   * call rejects with `timeout`.
   */
  readonly deadlineMs?: number | undefined;
  /** Limit on the duration of the call, including its retries. The edge does not see it. */
  readonly timeoutMs?: number | undefined;
  /** Maximum number of retries. */
  readonly maxRetries?: number | undefined;
  /** Cancels the call, which rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Headers of this call, such as `x-request-id` or `traceparent`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** @deprecated Use `maxRetries`. */
  readonly retries?: number | undefined;
}

/**
 * Resolved options, made by {@link connect} and taken by the single functions.
 *
 * @example
 * import { connect, type Connection, predict } from "edgetier/client";
 *
 * const connection: Connection = connect({ url: "https://predict.example.com" });
 * const prediction = await predict(connection, "intent", "what is my balance");
 */
export interface Connection {
  readonly url: string;
  readonly deadlineMs: number | undefined;
  readonly timeoutMs: number;
  readonly roundTripMs: number;
  readonly maxRetries: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  readonly random: () => number;
  /** @deprecated Use `roundTripMs`. */
  readonly wayMs: number;
  /** @deprecated Use `maxRetries`. */
  readonly retries: number;
}

export interface OutgoingRequest {
  readonly method?: "POST";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: BodyInit;
}

/** Reads a response of status 2xx or 304. */
type ReadResponse<Result> = (response: Response) => Promise<Result>;

const MAX_DEADLINE_MS = 600_000;
const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;

/**
 * Resolves the options of a connection. It sends nothing.
 *
 * @example
 * import { connect, predict } from "edgetier/client";
 *
 * const connection = connect({ url: "https://predict.example.com", deadlineMs: 300 });
 * const prediction = await predict(connection, "intent", "what is my balance");
 */
export function connect(options: ConnectionOptions): Connection {
  const {
    url,
    key,
    deadlineMs,
    timeoutMs = 30_000,
    roundTripMs = 50,
    maxRetries = 2,
    headers,
    clock = systemClock,
    random = Math.random,
  } = withCurrentNames(options);
  return {
    url: url.replace(/\/+$/, ""),
    deadlineMs,
    timeoutMs,
    roundTripMs,
    maxRetries,
    headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers },
    // Browsers throw if `fetch` is called as a method of another object than the window.
    fetch: options.fetch ?? ((input, init) => fetch(input, init)),
    clock,
    random,
    wayMs: roundTripMs,
    retries: maxRetries,
  };
}

/** Time at which a call that starts now must end, by the connection's clock. */
export const computeCallEndMs = ({ clock, ...defaults }: Connection, call: CallOptions): number =>
  clock.now() +
  Math.min(
    call.timeoutMs ?? defaults.timeoutMs,
    call.deadlineMs ?? defaults.deadlineMs ?? Number.POSITIVE_INFINITY,
  );

/**
 * Sends a request, and retries it after a network error, 429 or 503 until the deadline. Retries are safe because all
 * requests of this client compute and change nothing.
 * @throws EdgeTierError, or the reason of the caller's signal
 */
export async function send<Result>(
  connection: Connection,
  path: string,
  outgoing: OutgoingRequest,
  read: ReadResponse<Result>,
  options: CallOptions = {},
): Promise<Result> {
  const call = withCurrentNames(options);
  const { clock } = connection;
  const callEndMs = computeCallEndMs(connection, call);
  const maxRetries = call.maxRetries ?? connection.maxRetries;
  const abortScope = createAbortScope(clock, callEndMs - clock.now(), call.signal);
  try {
    for (let retries = 0; ; retries++) {
      const headers = buildHeaders(connection, outgoing, call, callEndMs - clock.now());
      const result = await tryOnce(connection, path, { ...outgoing, headers }, read, abortScope);
      if ("value" in result) return result.value;
      const { failure } = result;
      const backoffMs = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** retries);
      const delayMs = (failure.retryAfterMs ?? 0) + connection.random() * backoffMs;
      if (!failure.retryable || retries >= maxRetries || clock.now() + delayMs >= callEndMs)
        throw failure;
      if (delayMs > 0) await abortScope.sleep(delayMs);
    }
  } finally {
    abortScope.end();
  }
}

function buildHeaders(
  connection: Connection,
  outgoing: OutgoingRequest,
  call: CallOptions,
  remainingMs: number,
): Record<string, string> {
  const hasDeadline = (call.deadlineMs ?? connection.deadlineMs) !== undefined;
  const serverMs = remainingMs - Math.min(connection.roundTripMs, remainingMs / 2);
  const deadlineMs = Math.min(MAX_DEADLINE_MS, Math.max(1, Math.round(serverMs)));
  return {
    ...connection.headers,
    ...outgoing.headers,
    ...(hasDeadline ? { "x-deadline-ms": String(deadlineMs) } : {}),
    ...call.headers,
  };
}

/** @throws the reason of the abort, which must not be retried */
async function tryOnce<Result>(
  { url, fetch, clock }: Connection,
  path: string,
  init: RequestInit,
  read: ReadResponse<Result>,
  abortScope: AbortScope,
): Promise<{ readonly value: Result } | { readonly failure: EdgeTierError }> {
  try {
    abortScope.throwIfAborted();
    const response = await fetch(url + path, { ...init, signal: abortScope.signal });
    if (response.ok || response.status === 304) return { value: await read(response) };
    return { failure: await readErrorResponse(response, clock.now()) };
  } catch (error) {
    abortScope.throwIfAborted();
    if (error instanceof EdgeTierError) return { failure: error };
    return {
      failure: clientError(
        "network",
        `${url} is unreachable.`,
        "Check the address and the network, and try again.",
        error,
      ),
    };
  }
}

/** @throws invalid_answer if the body is not JSON */
export async function readJsonBody<Body>(response: Response): Promise<Body> {
  return parseJsonText(await response.text());
}

/**
 * Parses JSON without a check by the server's schemas, which would be most of this client's bytes.
 * @throws invalid_answer
 */
export function parseJsonText<Body>(text: string): Body {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw clientError(
      "invalid_answer",
      "The response is not JSON.",
      "Check that the address is an EdgeTier edge's.",
      error,
    );
  }
}
