// The executor: a lane for each session, in which the works of several requests share runs. Models differ in how
// (`batching` of their configuration); with `mode: off` each work has a run of its own.
//
// Known gaps: a run that has started is not stopped when nobody waits for it any more. A model whose rows influence each
// other although its outputs have a row each (dynamic quantisation does that, slightly) cannot be told from others. With
// several instances answers may come in another order than requests (Triton's `preserve_ordering` is not there): over HTTP
// each has its own request to go back to.

import type { Clock } from "../../../core/clock.ts";
import type { BatchingConfig } from "../../../registry/serving-config.ts";
import { checkInputs } from "../../../runtime/check-inputs.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { Executor, QueueState, Run, Work } from "../executor.ts";
import { createBufferPool } from "../buffer-pool.ts";
import { laneConfigOf } from "./lane-config.ts";
import { createLane, type Lane } from "./lane.ts";
import { createPreciseClock } from "./precise-clock.ts";
import type { Unbatchable } from "./run-batch.ts";

export interface ExecutorOptions {
  readonly clock?: Clock;
  /** What models do not say themselves. */
  readonly defaults?: BatchingConfig;
  /** Called once for each run. */
  readonly onRun?: (run: Run) => void;
  readonly onUnbatchable?: (event: Unbatchable) => void;
}

export function createExecutor({
  clock = createPreciseClock(),
  defaults,
  onRun = () => {},
  onUnbatchable = () => {},
}: ExecutorOptions = {}): Executor {
  const pool = createBufferPool();
  // A lane goes with its session: nothing here holds on to either.
  const lanes = new WeakMap<Session, Lane>();
  const known = new Set<WeakRef<Lane>>();

  function laneOf({ session, of, batching }: Work): Lane {
    const existing = lanes.get(session);
    if (existing !== undefined) return existing;
    const created = createLane(session, of, {
      clock,
      config: laneConfigOf(batching, defaults),
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
      checkInputs(work.session.inputs, work.inputs); // what is wrong takes no place, and what is merged must fit
      return await laneOf(work).execute(work);
    },

    queues() {
      const byName = new Map<string, QueueState>();
      for (const ref of known) {
        const lane = ref.deref();
        if (lane !== undefined) addTo(byName, lane.state());
      }
      return [...byName.values()];
    },
  };
}

/** A tier that was loaded anew has two sessions for a while. */
function addTo(
  byName: Map<string, QueueState>,
  { of, works, rows, ageMs, running }: QueueState,
): void {
  const name = `${of.model}@${of.version}/${of.tier}`;
  const other = byName.get(name) ?? { works: 0, rows: 0, ageMs: 0, running: 0 };
  byName.set(name, {
    of,
    works: other.works + works,
    rows: other.rows + rows,
    ageMs: Math.max(other.ageMs, ageMs),
    running: other.running + running,
  });
}
