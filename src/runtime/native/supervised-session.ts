// Supervises a session: a new worker replaces one that ends unexpectedly, so that the model recovers by itself.

import type { Clock } from "../../core/clock.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { reasonOf, type EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { validateInputs } from "../validate-inputs.ts";
import { nativeErrors } from "./errors.ts";
import type { NativeSession } from "./native-runtime.ts";
import type { NodeCounts } from "./node-counter.ts";
import type { WorkerSession } from "./worker-session.ts";

export interface RestartPolicy {
  /** Delay before the first attempt. Each further exit or failed attempt doubles it until a run succeeds. */
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  /** Consecutive failed attempts before restarts stop. A run may start new attempts `maxDelayMs` after the last one. */
  readonly maxAttempts: number;
  /** Maximum time that a run waits for a restart. */
  readonly restartWaitMs: number;
  /** Maximum time that a disposal waits for earlier runs before it kills the worker. */
  readonly disposalTimeoutMs: number;
}

export const DEFAULT_RESTART_POLICY: RestartPolicy = {
  initialDelayMs: 100,
  maxDelayMs: 30_000,
  maxAttempts: 8,
  restartWaitMs: 5_000,
  disposalTimeoutMs: 60_000,
};

/** Log event. `label` is the session's label; `pid` is undefined for a thread. */
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
  /** Memory of the model, which the server keeps to open the session again. */
  readonly modelBytes: number;
  readonly policy: RestartPolicy;
  readonly clock: Clock;
  readonly onEvent: (event: WorkerEvent) => void;
  /** Its abort prevents further restarts. */
  readonly signal: AbortSignal | undefined;
}

type SupervisorState =
  | { readonly kind: "serving"; readonly worker: WorkerSession }
  | { readonly kind: "restarting"; readonly restart: Promise<WorkerSession> }
  | { readonly kind: "failed"; readonly error: EdgeTierError; readonly retryAtMs: number }
  | { readonly kind: "disposed"; readonly error: EdgeTierError };

/** Wraps a worker's session so that a new worker replaces it after an unexpected exit. */
export function superviseSession(
  first: WorkerSession,
  options: SupervisedSessionOptions,
): NativeSession {
  const supervisor = new SessionSupervisor(first, options);
  const { inputs, outputs } = first;
  return {
    inputs,
    outputs,
    get memoryBytes() {
      return supervisor.memoryBytes;
    },
    get nodes() {
      return supervisor.nodes;
    },
    async run(tensors) {
      validateInputs(inputs, tensors); // invalid inputs need not cross to the worker
      return await supervisor.run(tensors);
    },
    dispose: () => supervisor.dispose(),
  };
}

class SessionSupervisor {
  readonly #options: SupervisedSessionOptions;
  #latest: WorkerSession;
  #state: SupervisorState;
  /** Delays since the last successful run; each doubles the next delay. */
  #delayCount = 0;
  #endDelay = () => {};
  #disposal: Promise<void> | undefined;

  constructor(first: WorkerSession, options: SupervisedSessionOptions) {
    this.#options = options;
    this.#latest = first;
    this.#state = { kind: "serving", worker: first };
    void this.#watch(first);
  }

  get memoryBytes(): number {
    return this.#latest.memoryBytes + this.#options.modelBytes;
  }

  get nodes(): NodeCounts | undefined {
    return this.#latest.nodes;
  }

  async run(tensors: NamedTensors): Promise<NamedTensors> {
    const worker = this.#acquireWorker();
    // A running worker gets the run synchronously, so that a later disposal still waits for it.
    const outputs = await (worker instanceof Promise ? await worker : worker).run(tensors);
    this.#delayCount = 0;
    return outputs;
  }

  async dispose(): Promise<void> {
    this.#disposal ??= this.#stop();
    await this.#disposal;
  }

  /** Reads the state through a method, because it changes during an await, which TypeScript's narrowing ignores. */
  #isDisposed(): boolean {
    return this.#state.kind === "disposed";
  }

  async #watch(worker: WorkerSession): Promise<void> {
    const reason = await worker.exited;
    if (this.#isDisposed()) return; // the exit was requested
    if (this.#options.signal?.aborted === true) {
      this.#state = { kind: "disposed", error: coreErrors.sessionFailed("it was aborted") };
      return;
    }
    this.#options.onEvent({ event: "session_worker_ended", pid: worker.pid, how: reason });
    void this.#restart();
  }

  #restart(): Promise<WorkerSession> {
    const restart = this.#openReplacement();
    restart.catch(() => {}); // events report the failure, and waiting runs receive it
    this.#state = { kind: "restarting", restart };
    return restart;
  }

  /** Opens a new worker with retries, and sets the resulting state. */
  async #openReplacement(): Promise<WorkerSession> {
    for (let attempt = 1; ; attempt++) {
      await this.#delay();
      const worker = await this.#tryToOpen(attempt);
      if (this.#isDisposed()) await worker?.shutDown();
      const state = this.#state;
      if (state.kind === "disposed" || state.kind === "failed") throw state.error;
      if (worker === undefined) continue;
      this.#latest = worker;
      this.#state = { kind: "serving", worker };
      void this.#watch(worker);
      return worker;
    }
  }

  async #tryToOpen(attempt: number): Promise<WorkerSession | undefined> {
    if (this.#isDisposed()) return undefined;
    const { open, onEvent, policy, clock } = this.#options;
    try {
      return await open();
    } catch (error) {
      onEvent({ event: "session_worker_not_started", error, tries: attempt });
      if (attempt < policy.maxAttempts || this.#isDisposed()) return undefined;
      onEvent({ event: "session_given_up", tries: attempt });
      this.#state = {
        kind: "failed",
        error: nativeErrors.sessionNotReplaced(attempt, reasonOf(error), error),
        retryAtMs: clock.now() + policy.maxDelayMs,
      };
      return undefined;
    }
  }

  async #delay(): Promise<void> {
    const { clock, policy } = this.#options;
    const delayMs = Math.min(policy.maxDelayMs, policy.initialDelayMs * 2 ** this.#delayCount++);
    await new Promise<void>((resolve) => {
      const cancel = clock.setTimer(resolve, delayMs);
      this.#endDelay = () => {
        cancel();
        resolve();
      };
    });
  }

  #acquireWorker(): WorkerSession | Promise<WorkerSession> {
    const state = this.#state;
    if (state.kind === "serving") return state.worker;
    if (state.kind === "restarting") return this.#waitForRestart(state.restart);
    if (state.kind === "disposed" || this.#options.clock.now() < state.retryAtMs) throw state.error;
    this.#delayCount = 0;
    return this.#waitForRestart(this.#restart());
  }

  async #waitForRestart(restart: Promise<WorkerSession>): Promise<WorkerSession> {
    const { clock, policy } = this.#options;
    const { promise: timeout, reject } = Promise.withResolvers<never>();
    const cancel = clock.setTimer(
      () => reject(nativeErrors.sessionBeingReplaced()),
      policy.restartWaitMs,
    );
    return await Promise.race([restart, timeout]).finally(cancel);
  }

  async #stop(): Promise<void> {
    const before = this.#state;
    this.#state = {
      kind: "disposed",
      error: coreErrors.sessionFailed("the session has been disposed of"),
    };
    this.#endDelay();
    if (before.kind === "restarting") await before.restart.catch(() => undefined);
    if (before.kind !== "serving") return;
    const { clock, policy } = this.#options;
    const { worker } = before;
    await worker.shutDown().finally(clock.setTimer(() => worker.kill(), policy.disposalTimeoutMs));
  }
}
