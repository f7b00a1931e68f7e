// The executor: a lane for each session, in which the works of several requests share runs. Models differ in how
// (`batching` of their configuration); with `mode: off` each work has a run of its own.
//
// Known gaps: a run that has started is not stopped when nobody waits for it any more. A model whose rows influence each
// other although its outputs have a row each (dynamic quantisation does that, slightly) cannot be told from others. With
// several instances answers may come in another order than requests (Triton's `preserve_ordering` is not there): over HTTP
// each has its own request to go back to.

import type { Clock } from "../../../core/clock.ts";
import type { BatchingConfig } from "../../../registry/serving-config.ts";
import { validateInputs } from "../../../runtime/validate-inputs.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { Executor, TierQueueState, BatchRun, ExecutionRequest } from "../executor.ts";
import { createBufferPool } from "../buffer-pool.ts";
import { resolveSchedulerConfig } from "./scheduler-config.ts";
import { createSessionScheduler, type SessionScheduler } from "./session-scheduler.ts";
import { createPreciseClock } from "./precise-clock.ts";
import type { UnbatchableSession } from "./batch-runner.ts";

export interface ExecutorOptions {
  readonly clock?: Clock;
  /** What models do not say themselves. */
  readonly defaultBatching?: BatchingConfig;
  /** Called once for each run. */
  readonly onRun?: (run: BatchRun) => void;
  readonly onUnbatchable?: (event: UnbatchableSession) => void;
}

export function createExecutor({
  clock = createPreciseClock(),
  defaultBatching: defaults,
  onRun = () => {},
  onUnbatchable = () => {},
}: ExecutorOptions = {}): Executor {
  const pool = createBufferPool();
  // A lane goes with its session: nothing here holds on to either.
  const lanes = new WeakMap<Session, SessionScheduler>();
  const known = new Set<WeakRef<SessionScheduler>>();

  function laneOf({ session, tier: of, batching }: ExecutionRequest): SessionScheduler {
    const existing = lanes.get(session);
    if (existing !== undefined) return existing;
    const created = createSessionScheduler(session, of, {
      clock,
      config: resolveSchedulerConfig(batching, defaults),
      pool,
      onRun,
      onUnbatchable,
    });
    lanes.set(session, created);
    forgetGone();
    known.add(new WeakRef(created));
    return created;
  }

  function forgetGone(): void {
    for (const ref of known) if (ref.deref() === undefined) known.delete(ref);
  }

  return {
    async execute(work) {
      validateInputs(work.session.inputs, work.inputs); // what is wrong takes no place, and what is merged must fit
      return await laneOf(work).execute(work);
    },

    queueStates() {
      const byName = new Map<string, TierQueueState>();
      for (const ref of known) {
        const lane = ref.deref();
        if (lane !== undefined) addQueueState(byName, lane.queueState());
      }
      return [...byName.values()];
    },
  };
}

/** A tier that was loaded anew has two sessions for a while. */
function addQueueState(
  byName: Map<string, TierQueueState>,
  {
    tier: of,
    requestCount: works,
    rows,
    oldestAgeMs: ageMs,
    runsInFlight: running,
  }: TierQueueState,
): void {
  const name = `${of.model}@${of.version}/${of.tier}`;
  const other = byName.get(name) ?? { requestCount: 0, rows: 0, oldestAgeMs: 0, runsInFlight: 0 };
  byName.set(name, {
    tier: of,
    requestCount: other.requestCount + works,
    rows: other.rows + rows,
    oldestAgeMs: Math.max(other.oldestAgeMs, ageMs),
    runsInFlight: other.runsInFlight + running,
  });
}
