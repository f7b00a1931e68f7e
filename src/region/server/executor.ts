// How accepted work gets onto a session. The direct executor runs each request by itself; batching/ lets them share runs.

import type { DispatchReason } from "./batching/delay-policy.ts";
import { systemClock, type Clock } from "../../core/clock.ts";
import { errors } from "../../core/errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { createInTurn, type InTurn } from "../../runtime/in-turn.ts";
import type { Session } from "../../runtime/runtime.ts";
import type { BatchingConfig } from "../../registry/serving-config.ts";
import type { Padding } from "../../tasks/task.ts";

/** Whose work it is: what logs and metrics call it. */
export interface TierName {
  readonly model: string;
  readonly version: number;
  readonly tier: string;
}

export interface Work {
  readonly session: Session;
  readonly of: TierName;
  /** How the tier's works share runs; what it does not say is the executor's default. That of a session's first work counts. */
  readonly batching?: BatchingConfig | undefined;
  /** The first dimension of each is the batch: its rows. */
  readonly inputs: NamedTensors;
  /** Milliseconds since the epoch from which on nobody wants the answer. */
  readonly expiresAtMs?: number | undefined;
  /** Aborted when the client has left. */
  readonly signal?: AbortSignal | undefined;
  /** From 1, the highest. */
  readonly priority?: number | undefined;
  /** How the inputs were padded, if they may be padded further to share a run. */
  readonly padding?: Padding | undefined;
  /** What the model is meant to answer within, from its coming here on: no wait for company goes beyond it. */
  readonly latencyBoundMs?: number | undefined;
}

/** One run of a session, over. */
export interface Run {
  readonly of: TierName;
  /** Requests that shared it. */
  readonly works: number;
  readonly rows: number;
  readonly reason: DispatchReason;
  /** What each of them waited, the longest first. */
  readonly waitedMs: readonly number[];
  /** Merging inputs, running the graph, splitting outputs. */
  readonly inputMs: number;
  readonly inferMs: number;
  readonly outputMs: number;
  readonly failed: boolean;
}

/** What waits for one session now. */
export interface QueueState {
  readonly of: TierName;
  readonly works: number;
  readonly rows: number;
  /** Of the oldest; 0 where nothing waits. */
  readonly ageMs: number;
  /** Runs under way. */
  readonly running: number;
}

export interface Executor {
  /** Of every session that had work and is still there. */
  queues(): readonly QueueState[];
  /** @throws queue_full, request_expired, request_cancelled; invalid_tensor, session_failed from the session. */
  execute(work: Work): Promise<NamedTensors>;
}

export interface DirectExecutorOptions {
  readonly clock?: Clock;
  /** Requests that may wait or run at once, over all models. */
  readonly maxQueued?: number;
}

export function createDirectExecutor({ clock = systemClock, maxQueued = 256 }: DirectExecutorOptions = {}): Executor {
  const turns = new WeakMap<Session, InTurn>();
  let accepted = 0;

  function turnOf(session: Session): InTurn {
    const existing = turns.get(session);
    if (existing !== undefined) return existing;
    const created = createInTurn();
    turns.set(session, created);
    return created;
  }

  /** Rejects at the moment of expiry, so that a client need not wait for its turn to learn that it comes too late. */
  function expiry(expiresAtMs: number): { readonly passed: Promise<never>; readonly cancel: () => void } {
    const { promise, reject } = Promise.withResolvers<never>();
    return { passed: promise, cancel: clock.setTimer(() => reject(errors.requestExpired()), Math.max(0, expiresAtMs - clock.now())) };
  }

  return {
    async execute({ session, inputs, expiresAtMs, signal }) {
      if (accepted >= maxQueued) throw errors.queueFull(maxQueued);
      accepted++;
      // In turn here and not only in the session, so that work can still be dropped when its turn comes.
      const done = turnOf(session)(async () => {
        if (signal?.aborted === true) throw errors.requestCancelled();
        if (expiresAtMs !== undefined && clock.now() >= expiresAtMs) throw errors.requestExpired();
        return await session.run(inputs);
      }).finally(() => accepted--);

      if (expiresAtMs === undefined) return await done;
      const { passed, cancel } = expiry(expiresAtMs);
      return await Promise.race([done, passed]).finally(cancel);
    },
  };
}
