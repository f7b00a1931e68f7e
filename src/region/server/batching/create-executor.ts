// Executor: creates one scheduler per session, in which requests share runs. The model's configuration (`batching`) decides
// how; with `mode: off`, each request has its own run.
//
// Known gaps:
// - A run that has started is not stopped when its last client disconnects.
// - A model whose rows influence each other cannot be recognized if its outputs have one row each. Dynamic quantization has
//   this effect to a small degree.
// - With several instances, answers may be out of order (Triton's `preserve_ordering` is not supported). Over HTTP, each answer
//   belongs to its own request.

import type { Clock } from "../../../core/clock.ts";
import type { BatchingConfig } from "../../../registry/serving-config.ts";
import type { Session } from "../../../runtime/runtime.ts";
import { validateInputs } from "../../../runtime/validate-inputs.ts";
import { createBufferPool } from "../buffer-pool.ts";
import type { Executor, TierQueueState, BatchRun, ExecutionRequest } from "../executor.ts";
import type { UnbatchableSession } from "./batch-runner.ts";
import { createPreciseClock } from "./precise-clock.ts";
import { resolveSchedulerConfig } from "./scheduler-config.ts";
import { createSessionScheduler, type SessionScheduler } from "./session-scheduler.ts";

export interface ExecutorOptions {
  readonly clock?: Clock;
  /** Values that a model's configuration does not set. */
  readonly defaultBatching?: BatchingConfig;
  /** Called once for each run. */
  readonly onRun?: (run: BatchRun) => void;
  readonly onUnbatchable?: (event: UnbatchableSession) => void;
}

export function createExecutor({
  clock = createPreciseClock(),
  defaultBatching,
  onRun = () => {},
  onUnbatchable = () => {},
}: ExecutorOptions = {}): Executor {
  const pool = createBufferPool();
  // A scheduler lives as long as its session, so nothing here keeps either alive.
  const schedulers = new WeakMap<Session, SessionScheduler>();
  const schedulerRefs = new Set<WeakRef<SessionScheduler>>();

  function getScheduler({ session, tier, batching }: ExecutionRequest): SessionScheduler {
    const existing = schedulers.get(session);
    if (existing !== undefined) return existing;
    const created = createSessionScheduler(session, tier, {
      clock,
      config: resolveSchedulerConfig(batching, defaultBatching),
      pool,
      onRun,
      onUnbatchable,
    });
    schedulers.set(session, created);
    forgetCollected();
    schedulerRefs.add(new WeakRef(created));
    return created;
  }

  function forgetCollected(): void {
    for (const ref of schedulerRefs) if (ref.deref() === undefined) schedulerRefs.delete(ref);
  }

  return {
    async execute(request) {
      validateInputs(request.session.inputs, request.inputs); // Invalid inputs must neither take queue space nor be merged.
      return await getScheduler(request).execute(request);
    },

    queueStates() {
      const byName = new Map<string, TierQueueState>();
      for (const ref of schedulerRefs) {
        const scheduler = ref.deref();
        if (scheduler !== undefined) addQueueState(byName, scheduler.queueState());
      }
      return [...byName.values()];
    },
  };
}

/** Adds up the queues of a tier. A reloaded tier has two sessions for a while. */
function addQueueState(
  byName: Map<string, TierQueueState>,
  { tier, requestCount, rows, oldestAgeMs, runsInFlight }: TierQueueState,
): void {
  const name = `${tier.model}@${tier.version}/${tier.tier}`;
  const other = byName.get(name) ?? { requestCount: 0, rows: 0, oldestAgeMs: 0, runsInFlight: 0 };
  byName.set(name, {
    tier,
    requestCount: other.requestCount + requestCount,
    rows: other.rows + rows,
    oldestAgeMs: Math.max(other.oldestAgeMs, oldestAgeMs),
    runsInFlight: other.runsInFlight + runsInFlight,
  });
}
