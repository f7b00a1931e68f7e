// A session whose worker is replaced when it ends without having been told to, so that the model answers again by itself.

import { coreErrors } from "../../core/common-errors.ts";
import { nativeErrors } from "./errors.ts";
import type { Clock } from "../../core/clock.ts";
import { reasonOf, type EdgeTierError } from "../../core/errors.ts";
import { validateInputs } from "../validate-inputs.ts";
import type { NativeSession } from "./native-runtime.ts";
import type { WorkerSession } from "./worker-session.ts";

export interface RestartPolicy {
  /** Before the first try; doubled with each further end or failed try until a run is answered. */
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  /** Tries in a row that may fail; from `maxDelayMs` after the last one on, a run begins them anew. */
  readonly maxAttempts: number;
  /** How long a run may wait for the replacement. */
  readonly restartWaitMs: number;
  /** How long a disposal waits for the runs before it; then the worker is killed. */
  readonly disposalTimeoutMs: number;
}

export const DEFAULT_RESTART_POLICY: RestartPolicy = {
  initialDelayMs: 100,
  maxDelayMs: 30_000,
  maxAttempts: 8,
  restartWaitMs: 5_000,
  disposalTimeoutMs: 60_000,
};

/** For the log. `label` is the session's; `pid` is its process's, where it has one. */
export type WorkerEvent = { readonly label?: string | undefined } & (
  | {
      readonly event: "session_worker_started";
      readonly pid: number | undefined;
      readonly memoryBytes: number;
      readonly durationMs: number;
    }
  | {
      readonly event: "session_worker_ended";
      readonly pid: number | undefined;
      readonly how: string;
    }
  | {
      readonly event: "session_worker_not_started";
      readonly error: unknown;
      readonly tries: number;
    }
  | { readonly event: "session_given_up"; readonly tries: number }
);

export interface SupervisedSessionOptions {
  readonly open: () => Promise<WorkerSession>;
  /** What the session holds beside its worker. */
  readonly modelBytes: number;
  readonly policy: RestartPolicy;
  readonly clock: Clock;
  readonly onEvent: (event: WorkerEvent) => void;
  /** Aborted when nothing is to take the worker's place any more. */
  readonly signal: AbortSignal | undefined;
}

type SupervisorState =
  | { readonly kind: "serving"; readonly worker: WorkerSession }
  | { readonly kind: "restarting"; readonly restart: Promise<WorkerSession> }
  | { readonly kind: "failed"; readonly error: EdgeTierError; readonly retryAtMs: number }
  | { readonly kind: "disposed"; readonly error: EdgeTierError };

export function superviseSession(
  first: WorkerSession,
  options: SupervisedSessionOptions,
): NativeSession {
  const { open, modelBytes: keptBytes, policy, clock, onEvent, signal: end } = options;
  const { inputs, outputs } = first;
  let latest = first;
  let state: SupervisorState = { kind: "serving", worker: first };
  let delays = 0;
  let endDelay = () => {};
  let disposal: Promise<void> | undefined;
  const isOver = () => state.kind === "disposed"; // others change the state while something is awaited
  void watch(first);

  async function watch(worker: WorkerSession): Promise<void> {
    const how = await worker.exited;
    if (isOver()) return; // it was told to
    if (end?.aborted === true) {
      state = { kind: "disposed", error: coreErrors.sessionFailed("it was broken off") };
      return;
    }
    onEvent({ event: "session_worker_ended", pid: worker.pid, how });
    void replace();
  }

  function replace(): Promise<WorkerSession> {
    const next = openAgain();
    next.catch(() => {}); // events tell of it, and those who wait are told
    state = { kind: "restarting", restart: next };
    return next;
  }

  /** Changes the state when it is done. */
  async function openAgain(): Promise<WorkerSession> {
    for (let tries = 1; ; tries++) {
      await delay();
      const worker = await tryToOpen(tries);
      if (isOver()) await worker?.shutDown();
      if (state.kind === "disposed" || state.kind === "failed") throw state.error;
      if (worker === undefined) continue;
      latest = worker;
      state = { kind: "serving", worker };
      void watch(worker);
      return worker;
    }
  }

  async function tryToOpen(tries: number): Promise<WorkerSession | undefined> {
    if (isOver()) return undefined;
    try {
      return await open();
    } catch (error) {
      onEvent({ event: "session_worker_not_started", error, tries });
      if (tries < policy.maxAttempts || isOver()) return undefined;
      onEvent({ event: "session_given_up", tries });
      state = {
        kind: "failed",
        error: nativeErrors.sessionNotReplaced(tries, reasonOf(error), error),
        retryAtMs: clock.now() + policy.maxDelayMs,
      };
      return undefined;
    }
  }

  async function delay(): Promise<void> {
    const delayMs = Math.min(policy.maxDelayMs, policy.initialDelayMs * 2 ** delays++);
    await new Promise<void>((resolve) => {
      const cancel = clock.setTimer(resolve, delayMs);
      endDelay = () => {
        cancel();
        resolve();
      };
    });
  }

  function worker(): WorkerSession | Promise<WorkerSession> {
    if (state.kind === "serving") return state.worker;
    if (state.kind === "restarting") return inTime(state.restart);
    if (state.kind === "disposed" || clock.now() < state.retryAtMs) throw state.error;
    delays = 0;
    return inTime(replace());
  }

  async function inTime(next: Promise<WorkerSession>): Promise<WorkerSession> {
    const { promise: tooLong, reject } = Promise.withResolvers<never>();
    const cancel = clock.setTimer(
      () => reject(nativeErrors.sessionBeingReplaced()),
      policy.restartWaitMs,
    );
    return await Promise.race([next, tooLong]).finally(cancel);
  }

  async function stop(): Promise<void> {
    const before = state;
    state = {
      kind: "disposed",
      error: coreErrors.sessionFailed("the session has been disposed of"),
    };
    endDelay();
    if (before.kind === "restarting") await before.restart.catch(() => undefined);
    if (before.kind !== "serving") return;
    const { worker } = before;
    await worker.shutDown().finally(clock.setTimer(() => worker.kill(), policy.disposalTimeoutMs));
  }

  return {
    inputs,
    outputs,
    get memoryBytes() {
      return latest.memoryBytes + keptBytes;
    },
    get nodes() {
      return latest.nodes;
    },

    async run(tensors) {
      validateInputs(inputs, tensors); // here too: what is wrong need not cross
      const found = worker();
      // Where there is one, at once: what is disposed of now still does this run.
      const outputs = await (found instanceof Promise ? await found : found).run(tensors);
      delays = 0;
      return outputs;
    },

    async dispose() {
      disposal ??= stop();
      await disposal;
    },
  };
}
