// Dynamic batching: works of several requests share one run of their session.
//
// Known gaps: a run that has started is not stopped when nobody waits for it any more. A model whose rows influence each
// other although its outputs have a row each (dynamic quantisation does that, slightly) cannot be told from others.

import { type Clock, systemClock } from "../../../core/clock.ts";
import type { Session } from "../../../runtime/runtime.ts";
import { checkInputs } from "../../../runtime/check-inputs.ts";
import type { Executor } from "../executor.ts";
import { DEFAULT_QUEUE_POLICY, type QueuePolicy } from "./batch-queue.ts";
import { createBufferPool } from "./buffer-pool.ts";
import type { DelayPolicy } from "./delay-policy.ts";
import { createLane, type Dispatch, type Lane, type Unbatchable } from "./lane.ts";

export interface BatchingExecutorOptions {
  readonly clock?: Clock;
  /** Makes the policy of one session. */
  readonly policy: () => DelayPolicy;
  /** Rows of one run; a single work may have more, and then runs by itself. */
  readonly maxBatchRows: number;
  readonly queue?: Partial<QueuePolicy>;
  /** Runs that a session is given at once. With 2 it need not wait for the next one, but batches are smaller. */
  readonly instances?: number;
  readonly onDispatch?: (dispatch: Dispatch) => void;
  /** Called once for a session whose outputs have no row for each of a batch; its works run one by one from then on. */
  readonly onUnbatchable?: (event: Unbatchable) => void;
}

/** Batches each session's works, in the order of their priorities and their coming. */
export function createBatchingExecutor(options: BatchingExecutorOptions): Executor {
  const { clock = systemClock, policy, maxBatchRows, instances = 1, onDispatch = () => {}, onUnbatchable = () => {} } = options;
  const queue = { ...DEFAULT_QUEUE_POLICY, ...options.queue };
  const pool = createBufferPool();
  const lanes = new WeakMap<Session, Lane>();

  function laneOf(session: Session): Lane {
    const existing = lanes.get(session);
    if (existing !== undefined) return existing;
    const created = createLane(session, { clock, policy: policy(), pool, maxBatchRows, queue, instances, onDispatch, onUnbatchable });
    lanes.set(session, created);
    return created;
  }

  return {
    async execute(work) {
      checkInputs(work.session.inputs, work.inputs); // what is wrong takes no place, and what is merged must fit
      return await laneOf(work.session)(work);
    },
  };
}
