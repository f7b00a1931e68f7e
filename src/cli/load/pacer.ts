// Says when each call of an open loop is due. A thread of its own sleeps until then: Node's timers are a millisecond
// late, and turning over until the moment would take a core from the system under test.

import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

/**
 * Calls `onDue` for each of `dueAtMs` (milliseconds of this thread's `performance.now`, ascending) when it has come.
 * @param signal ends it before the last one
 */
export type Pace = (dueAtMs: Float64Array, onDue: (index: number) => void, signal?: AbortSignal) => Promise<void>;

const wallMs = () => performance.timeOrigin + performance.now();

export const pace: Pace = async (dueAtMs, onDue, signal) => {
  if (signal?.aborted === true) return;
  const worker = new Worker(new URL(import.meta.url), { workerData: dueAtMs.map((due) => performance.timeOrigin + due) });
  const stop = () => void worker.terminate();
  signal?.addEventListener("abort", stop);
  worker.on("message", (index: number) => {
    if (signal?.aborted !== true) onDue(index);
  });
  try {
    await once(worker, "exit");
  } finally {
    signal?.removeEventListener("abort", stop);
  }
};

if (!isMainThread && workerData instanceof Float64Array) {
  const asleep = new Int32Array(new SharedArrayBuffer(4));
  for (const [index, momentMs] of workerData.entries()) {
    const waitMs = momentMs - wallMs();
    if (waitMs > 0) Atomics.wait(asleep, 0, 0, waitMs);
    parentPort?.postMessage(index);
  }
}
