// Request coalescing: identical concurrent requests are computed once. The first one's run answers all of them, each within its
// own deadline. The run is aborted only when its last waiting client has disconnected or expired.
//
// Requests are identical if they have the same session (one tier of one version), inputs and priority. Inputs are compared byte
// by byte, before preprocessing. Selected outputs and output format may differ.

import { createHash } from "node:crypto";
import { byteView } from "../../core/bytes.ts";
import type { Clock } from "../../core/clock.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { QueueConfig } from "../../registry/serving-config.ts";
import type { Session } from "../../runtime/runtime.ts";
import { regionServerErrors } from "./errors.ts";

/** A client that waits for a run. */
export interface Waiter {
  /** Deadline in milliseconds since the epoch. */
  readonly expiresAtMs: number | undefined;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface CoalescableRequest extends Waiter {
  readonly session: Session;
  readonly inputs: NamedTensors;
  readonly priority: number | undefined;
}

export interface CoalescedResult {
  readonly outputs: NamedTensors;
  /** Whether the run belonged to another request. */
  readonly isCoalesced: boolean;
}

export interface RequestCoalescer {
  /**
   * @param start starts the run for all requests that will wait for it
   * @throws request_expired, request_cancelled for this request only; what the run throws
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

/** Gives each request its own run. */
export const noCoalescing: RequestCoalescer = {
  execute: async ({ expiresAtMs, signal }, start) => ({
    outputs: await start({ expiresAtMs, signal }),
    isCoalesced: false,
  }),
};

/**
 * Returns whether requests of this queue may be coalesced. A request needs its own place in the queue if its expiry only
 * delays it, or if the queue ignores its deadline.
 */
export const isCoalescable = ({ timeoutAction, allowTimeoutOverride }: QueueConfig = {}): boolean =>
  timeoutAction !== "delay" && allowTimeoutOverride !== false;

export function createRequestCoalescer(clock: Clock): RequestCoalescer {
  const runsBySession = new WeakMap<Session, Map<string, InFlightRun>>();

  function runsOf(session: Session): Map<string, InFlightRun> {
    const runs = runsBySession.get(session) ?? new Map<string, InFlightRun>();
    runsBySession.set(session, runs);
    return runs;
  }

  async function execute(
    request: CoalescableRequest,
    start: (waiter: Waiter) => Promise<NamedTensors>,
  ): Promise<CoalescedResult> {
    if (request.signal.aborted) throw coreErrors.requestCancelled();
    if (hasExpired(request, clock)) throw regionServerErrors.requestExpired();
    const runs = runsOf(request.session);
    const key = computeRequestKey(request);
    const inFlight = runs.get(key);
    if (inFlight === undefined) {
      const run = startRun(runs, key, start);
      return { outputs: await waitFor(run, request, clock), isCoalesced: false };
    }
    try {
      return { outputs: await waitFor(inFlight, request, clock), isCoalesced: true };
    } catch (error) {
      // The run exceeded its queue's timeout, but this request has time left.
      if (
        error instanceof EdgeTierError &&
        error.code === "request_expired" &&
        !hasExpired(request, clock)
      )
        return await execute(request, start);
      throw error;
    }
  }

  return { execute };
}

const hasExpired = ({ expiresAtMs = Infinity }: Waiter, clock: Clock): boolean =>
  clock.now() >= expiresAtMs;

function startRun(
  runs: Map<string, InFlightRun>,
  key: string,
  start: (waiter: Waiter) => Promise<NamedTensors>,
): InFlightRun {
  const abortion = new AbortController();
  const forget = () => void (runs.get(key) === run && runs.delete(key));
  const run: InFlightRun = {
    outputs: start({ expiresAtMs: undefined, signal: abortion.signal }).finally(forget),
    waiters: 0,
    abandon() {
      forget();
      abortion.abort();
    },
  };
  runs.set(key, run);
  return run;
}

/** Waits for a run on behalf of one client; the last client to stop waiting abandons the run. */
async function waitFor(
  run: InFlightRun,
  { expiresAtMs, signal }: Waiter,
  clock: Clock,
): Promise<NamedTensors> {
  const { promise, resolve, reject } = Promise.withResolvers<NamedTensors>();
  const cancel = () => reject(coreErrors.requestCancelled());
  let stopTimer = () => {};
  const checkExpiry = () => {
    if (expiresAtMs === undefined) return;
    const remainingMs = expiresAtMs - clock.now();
    if (remainingMs <= 0) reject(regionServerErrors.requestExpired());
    else stopTimer = clock.setTimer(checkExpiry, remainingMs); // Timers may fire early.
  };
  run.waiters++;
  signal.addEventListener("abort", cancel);
  checkExpiry();
  run.outputs.then(resolve, reject);
  try {
    return await promise;
  } finally {
    stopTimer();
    signal.removeEventListener("abort", cancel);
    if (--run.waiters === 0) run.abandon();
  }
}

/** Computes SHA-256 over the fields, each prefixed with its length. */
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
