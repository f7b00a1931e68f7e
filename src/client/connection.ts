// One server, and how it is asked: within a time, again where that is safe, with one kind of error. No API that browsers,
// React Native or Node lack: no AbortSignal.any, no TextDecoder, no streams.

import { type Clock, systemClock } from "../core/clock.ts";
import { EdgeTierError, clientError, readErrorResponse } from "./errors.ts";

export interface ConnectionOptions {
  /** Of the edge, such as `https://predict.example.com`. */
  readonly url: string;
  /** An API key or a token; sent to the edge, and never to a region. */
  readonly key?: string | undefined;
  /** For all calls that name none of their own. */
  readonly deadlineMs?: number | undefined;
  /** After which a call is given up, repetitions included; 30,000 by default. */
  readonly timeoutMs?: number | undefined;
  /** What the way there and back takes: so much earlier than the deadline the edge is asked to answer; 50 by default. */
  readonly wayMs?: number | undefined;
  /** How often a call is repeated at most; 2 by default. */
  readonly retries?: number | undefined;
  /** On every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly fetch?: typeof fetch | undefined;
  /** For tests: time, and what spreads repetitions. */
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
}

export interface CallOptions {
  /**
   * When the answer is wanted, in milliseconds from now, as the caller sees it. The edge is told what is left of it on each try
   * (`x-deadline-ms`), and answers in time with what it knows by then, marked as degraded; after it the call is given up.
   */
  readonly deadlineMs?: number | undefined;
  readonly timeoutMs?: number | undefined;
  readonly retries?: number | undefined;
  /** Gives the call up; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Such as `x-request-id` or `traceparent`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface Connection {
  readonly url: string;
  readonly deadlineMs: number | undefined;
  readonly timeoutMs: number;
  readonly wayMs: number;
  readonly retries: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  readonly random: () => number;
}

export interface OutgoingRequest {
  readonly method?: "POST";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: BodyInit;
}

const MAX_DEADLINE_MS = 600_000;
const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;

export function connect(options: ConnectionOptions): Connection {
  const {
    url,
    key,
    deadlineMs,
    timeoutMs = 30_000,
    wayMs = 50,
    retries = 2,
    headers,
    clock = systemClock,
    random = Math.random,
  } = options;
  return {
    url: url.replace(/\/+$/, ""),
    deadlineMs,
    timeoutMs,
    wayMs,
    retries,
    headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers },
    fetch: options.fetch ?? ((input, init) => fetch(input, init)), // a browser's fetch wants to be called on its window
    clock,
    random,
  };
}

/** When a call ends, by the connection's clock. */
export const endsAtMsOf = ({ clock, ...defaults }: Connection, call: CallOptions): number =>
  clock.now() +
  Math.min(
    call.timeoutMs ?? defaults.timeoutMs,
    call.deadlineMs ?? defaults.deadlineMs ?? Number.POSITIVE_INFINITY,
  );

/**
 * Asks, and asks again after a network error, 429 or 503, as long as there is time: every request of this client computes and
 * changes nothing, so that repeating it is safe.
 * @param read what to make of a response of status 2xx or 304
 * @throws EdgeTierError, or the reason of the caller's signal
 */
export async function send<Result>(
  connection: Connection,
  path: string,
  outgoing: OutgoingRequest,
  read: (response: Response) => Promise<Result>,
  call: CallOptions = {},
): Promise<Result> {
  const { clock, wayMs } = connection;
  const endsAtMs = endsAtMsOf(connection, call);
  const isBounded = (call.deadlineMs ?? connection.deadlineMs) !== undefined;
  const stop = createAbortScope(clock, endsAtMs - clock.now(), call.signal);
  try {
    for (let tries = 0; ; tries++) {
      const leftMs = endsAtMs - clock.now();
      const deadlineMs = Math.min(
        MAX_DEADLINE_MS,
        Math.max(1, Math.round(leftMs - Math.min(wayMs, leftMs / 2))),
      );
      const headers = {
        ...connection.headers,
        ...outgoing.headers,
        ...(isBounded ? { "x-deadline-ms": String(deadlineMs) } : {}),
        ...call.headers,
      };
      let failure: EdgeTierError;
      try {
        stop.check();
        const response = await connection.fetch(connection.url + path, {
          ...outgoing,
          headers,
          signal: stop.signal,
        });
        if (response.ok || response.status === 304) return await read(response);
        failure = await readErrorResponse(response, clock.now());
      } catch (error) {
        stop.check();
        failure =
          error instanceof EdgeTierError
            ? error
            : clientError(
                "network",
                `${connection.url} cannot be reached.`,
                "Check the address and the network, and try again.",
                error,
              );
      }
      const waitMs =
        (failure.retryAfterMs ?? 0) +
        connection.random() * Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** tries);
      if (
        !failure.retryable ||
        tries >= (call.retries ?? connection.retries) ||
        clock.now() + waitMs >= endsAtMs
      )
        throw failure;
      if (waitMs > 0) await stop.sleep(waitMs);
    }
  } finally {
    stop.end();
  }
}

/** @throws invalid_answer for what is not JSON */
export async function readJsonBody<Body>(response: Response): Promise<Body> {
  return parseJsonText(await response.text());
}

/** The server's schemas are not checked again here: they would be most of this client's bytes. @throws invalid_answer */
export function parseJsonText<Body>(text: string): Body {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw clientError(
      "invalid_answer",
      "The answer is not JSON.",
      "Check that the address is an EdgeTier edge's.",
      error,
    );
  }
}

/** One signal of the time and the caller's signal. The reason is kept here: React Native's signals have none. */
function createAbortScope(clock: Clock, timeMs: number, caller: AbortSignal | undefined) {
  const controller = new AbortController();
  let reason: unknown;
  let wake = () => {};
  const abort = (why: unknown) => {
    reason ??= why;
    controller.abort(why);
    wake();
  };
  const leave = () =>
    abort(caller?.reason ?? clientError("aborted", "The caller gave the request up.", ""));
  const stopTimer = clock.setTimer(
    () =>
      abort(
        clientError(
          "timeout",
          `There was no answer within ${Math.round(timeMs)} ms.`,
          "Allow it more time, or check the network.",
        ),
      ),
    timeMs,
  );
  if (caller?.aborted === true) leave();
  caller?.addEventListener("abort", leave);

  const check = (): void => {
    if (reason !== undefined) throw reason;
  };
  return {
    signal: controller.signal,
    check,
    async sleep(delayMs: number): Promise<void> {
      let stopSleeping = () => {};
      await new Promise<void>((resolve) => {
        wake = resolve;
        stopSleeping = clock.setTimer(resolve, delayMs);
      });
      stopSleeping();
      check();
    },
    end(): void {
      stopTimer();
      caller?.removeEventListener("abort", leave);
    },
  };
}
