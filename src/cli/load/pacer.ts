// Says when each call of an open loop is due. A thread of its own sleeps until then: Node's timers are a millisecond
// late, and turning over until the moment would take a core from the system under test.

import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

export interface PacerEvents {
  /** Told first. @param atMs of this thread's `performance.now` */
  onStart(atMs: number): void;
  onDue(index: number): void;
}

/**
 * @param dueMs from the beginning, ascending
 * @param signal ends it before the last one
 */
export type Pace = (dueMs: Float64Array, paced: PacerEvents, signal?: AbortSignal) => Promise<void>;

const wallClockMs = () => performance.timeOrigin + performance.now();
/** From the beginning being told to the beginning: a message to the other thread. */
const START_DELAY_MS = 20;

export const pace: Pace = async (dueMs, { onStart: begins, onDue: due }, signal) => {
  if (signal?.aborted === true) return;
  const worker = new Worker(new URL(import.meta.url), { workerData: dueMs });
  const stop = () => void worker.terminate();
  signal?.addEventListener("abort", stop);
  worker.once("message", () => {
    const beginsAtMs = performance.now() + START_DELAY_MS; // only now: a thread may take long to start
    begins(beginsAtMs);
    worker.on("message", (index: number) => {
      if (signal?.aborted !== true) due(index);
    });
    worker.postMessage(performance.timeOrigin + beginsAtMs);
  });
  try {
    await once(worker, "exit");
  } finally {
    signal?.removeEventListener("abort", stop);
  }
};

if (!isMainThread && workerData instanceof Float64Array) {
  parentPort?.once("message", (beginsAtMs: number) => {
    const asleep = new Int32Array(new SharedArrayBuffer(4));
    for (const [index, dueMs] of workerData.entries()) {
      const waitMs = beginsAtMs + dueMs - wallClockMs();
      if (waitMs > 0) Atomics.wait(asleep, 0, 0, waitMs);
      parentPort?.postMessage(index);
    }
  });
  parentPort?.postMessage("ready");
}
