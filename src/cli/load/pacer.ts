// Pacer: signals when each call of an open loop is due. A separate thread sleeps until then, because Node's timers are a
// millisecond late. A busy loop would take a core from the system under test.

import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

export interface PacerEvents {
  /** Called first. @param atMs start time on this thread's `performance.now` */
  onStart(atMs: number): void;
  onDue(index: number): void;
}

/**
 * Emits an event for each due time.
 * @param dueMs ascending due times from the start
 * @param signal stops the pacer early
 */
export type Pace = (
  dueMs: Float64Array,
  events: PacerEvents,
  signal?: AbortSignal,
) => Promise<void>;

const wallClockMs = () => performance.timeOrigin + performance.now();
/** Delay between announcing the start and the start, enough for a message to the other thread. */
const START_DELAY_MS = 20;

export const pace: Pace = async (dueMs, { onStart, onDue }, signal) => {
  if (signal?.aborted === true) return;
  const worker = new Worker(new URL(import.meta.url), { workerData: dueMs });
  const stop = () => void worker.terminate();
  signal?.addEventListener("abort", stop);
  worker.once("message", () => {
    const startAtMs = performance.now() + START_DELAY_MS; // set only now, because a thread may start slowly
    onStart(startAtMs);
    worker.on("message", (index: number) => {
      if (signal?.aborted !== true) onDue(index);
    });
    worker.postMessage(performance.timeOrigin + startAtMs);
  });
  try {
    await once(worker, "exit");
  } finally {
    signal?.removeEventListener("abort", stop);
  }
};

if (!isMainThread && workerData instanceof Float64Array) {
  parentPort?.once("message", (startAtMs: number) => {
    const neverNotified = new Int32Array(new SharedArrayBuffer(4));
    for (const [index, dueMs] of workerData.entries()) {
      const waitMs = startAtMs + dueMs - wallClockMs();
      if (waitMs > 0) Atomics.wait(neverNotified, 0, 0, waitMs);
      parentPort?.postMessage(index);
    }
  });
  parentPort?.postMessage("ready");
}
