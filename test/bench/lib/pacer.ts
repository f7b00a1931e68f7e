// Says when each call of an open loop is due. A thread of its own sleeps until then: Node's timers are a millisecond
// late, and turning over until the moment would take a core from the system under test.
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const wallMs = () => performance.timeOrigin + performance.now();

/** Calls `onDue` for each of `dueAtMs` (milliseconds of this thread's `performance.now`, ascending) when it has come. */
export async function pace(dueAtMs: readonly number[], onDue: (index: number) => void): Promise<void> {
  const worker = new Worker(new URL(import.meta.url), { workerData: dueAtMs.map((due) => performance.timeOrigin + due) });
  worker.on("message", onDue);
  await once(worker, "exit");
}

if (!isMainThread) {
  const asleep = new Int32Array(new SharedArrayBuffer(4));
  const due: readonly number[] = workerData;
  due.forEach((momentMs, index) => {
    const waitMs = momentMs - wallMs();
    if (waitMs > 0) Atomics.wait(asleep, 0, 0, waitMs);
    parentPort?.postMessage(index);
  });
}
