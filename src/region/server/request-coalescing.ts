// Identical requests that come at the same time are computed once: the first one's run answers all of them, each within its own
// deadline and for as long as its own client waits. The run ends early only when nobody waits for it any more.
//
// Identical are those for one session (which is one tier of one version) with the same inputs, byte by byte and before any
// preprocessing, and the same priority. What a request wants of the outputs, and in which form, is its own matter.

import { coreErrors } from "../../core/common-errors.ts";
import { regionServerErrors } from "./errors.ts";
import { createHash } from "node:crypto";
import { byteView } from "../../core/bytes.ts";
import type { Clock } from "../../core/clock.ts";
import { EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { QueueConfig } from "../../registry/serving-config.ts";
import type { Session } from "../../runtime/runtime.ts";

/** For whom, and for how long, a run is made. */
export interface Waiter {
  /** Milliseconds since the epoch. */
  readonly expiresAtMs: number | undefined;
  /** Aborted when the client has left. */
  readonly signal: AbortSignal;
}

export interface CoalescableRequest extends Waiter {
  readonly session: Session;
  readonly inputs: NamedTensors;
  readonly priority: number | undefined;
}

export interface CoalescedResult {
  readonly outputs: NamedTensors;
  /** It was another request's run. */
  readonly isCoalesced: boolean;
}

export interface RequestCoalescer {
  /**
   * @param start makes the run, for all who will wait for it
   * @throws request_expired, request_cancelled for this request alone; what the run throws
   */
  execute(
    request: CoalescableRequest,
    start: (waiter: Waiter) => Promise<NamedTensors>,
  ): Promise<CoalescedResult>;
}

interface InFlightRun {
  readonly outputs: Promise<NamedTensors>;
  waiters: number;
  abandon(): void;
}

/** A run for each request. */
export const noCoalescing: RequestCoalescer = {
  execute: async ({ expiresAtMs, signal }, start) => ({
    outputs: await start({ expiresAtMs, signal }),
    isCoalesced: false,
  }),
};

/** Whether a request that expires is refused: where it only goes back in the queue, or its own deadline is not heeded, it needs a place of its own there. */
export const isCoalescable = ({ timeoutAction, allowTimeoutOverride }: QueueConfig = {}): boolean =>
  timeoutAction !== "delay" && allowTimeoutOverride !== false;

export function createRequestCoalescer(clock: Clock): RequestCoalescer {
  const bySession = new WeakMap<Session, Map<string, InFlightRun>>();

  function runsOf(session: Session): Map<string, InFlightRun> {
    const runs = bySession.get(session) ?? new Map<string, InFlightRun>();
    bySession.set(session, runs);
    return runs;
  }

  const hasExpired = ({ expiresAtMs = Infinity }: Waiter) => clock.now() >= expiresAtMs;

  function begin(
    runs: Map<string, InFlightRun>,
    key: string,
    start: (waiter: Waiter) => Promise<NamedTensors>,
  ): InFlightRun {
    const abandoned = new AbortController();
    const forget = () => void (runs.get(key) === run && runs.delete(key));
    const run: InFlightRun = {
      outputs: start({ expiresAtMs: undefined, signal: abandoned.signal }).finally(forget),
      waiters: 0,
      abandon() {
        forget();
        abandoned.abort();
      },
    };
    runs.set(key, run);
    return run;
  }

  async function wait(run: InFlightRun, { expiresAtMs, signal }: Waiter): Promise<NamedTensors> {
    const { promise, resolve, reject } = Promise.withResolvers<NamedTensors>();
    const leave = () => reject(coreErrors.requestCancelled());
    let stopTimer = () => {};
    const watch = () => {
      if (expiresAtMs === undefined) return;
      const leftMs = expiresAtMs - clock.now();
      if (leftMs <= 0) reject(regionServerErrors.requestExpired());
      else stopTimer = clock.setTimer(watch, leftMs); // timers may be early
    };
    run.waiters++;
    signal.addEventListener("abort", leave);
    watch();
    run.outputs.then(resolve, reject);
    try {
      return await promise;
    } finally {
      stopTimer();
      signal.removeEventListener("abort", leave);
      if (--run.waiters === 0) run.abandon();
    }
  }

  async function run(
    request: CoalescableRequest,
    start: (waiter: Waiter) => Promise<NamedTensors>,
  ): Promise<CoalescedResult> {
    if (request.signal.aborted) throw coreErrors.requestCancelled();
    if (hasExpired(request)) throw regionServerErrors.requestExpired();
    const runs = runsOf(request.session);
    const key = computeRequestKey(request);
    const others = runs.get(key);
    if (others === undefined)
      return { outputs: await wait(begin(runs, key, start), request), isCoalesced: false };
    try {
      return { outputs: await wait(others, request), isCoalesced: true };
    } catch (error) {
      // The run has waited for longer than its queue allows, and this request has not.
      if (
        error instanceof EdgeTierError &&
        error.code === "request_expired" &&
        !hasExpired(request)
      )
        return await run(request, start);
      throw error;
    }
  }

  return { execute: run };
}

/** SHA-256 over the fields, each with its length before it. */
function computeRequestKey({ inputs, priority }: CoalescableRequest): string {
  const hash = createHash("sha256");
  const length = new Uint8Array(4);
  const add = (field: Uint8Array | string) => {
    const bytes = typeof field === "string" ? Buffer.from(field) : field;
    new DataView(length.buffer).setUint32(0, bytes.byteLength, true);
    hash.update(length).update(bytes);
  };
  add(String(priority ?? 0));
  for (const name of Object.keys(inputs).toSorted()) {
    const tensor = inputs[name];
    if (tensor === undefined) continue;
    add(name);
    add(tensor.datatype);
    add(tensor.shape.join(","));
    if (tensor.datatype !== "BYTES") add(byteView(tensor.data));
    else for (const element of tensor.data) add(element);
  }
  return hash.digest("base64");
}
