import { expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
// Tests restarts of a session's worker, with fake workers and a manual clock.
import { coreErrors } from "../../src/core/common-errors.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { createWorkerRuntime } from "../../src/runtime/native/isolated-runtime.ts";
import type { NativeSessionOptions } from "../../src/runtime/native/session-options.ts";
import type { WorkerEvent } from "../../src/runtime/native/supervised-session.ts";
import {
  toErrorFields,
  type StartWorker,
  type WorkerRequest,
  type WorkerEvents,
} from "../../src/runtime/native/worker-messages.ts";

const spec = { name: "x", datatype: "INT32", shape: [1] } as const;
const singleInput: NamedTensors = { x: { datatype: "INT32", shape: [1], data: Int32Array.of(1) } };
/** Runs all pending work that does not wait for a timer. */
async function flushMicrotasks(): Promise<void> {
  for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve));
}

interface FakeWorker extends WorkerEvents {
  readonly received: WorkerRequest[];
  killed: boolean;
  hangs: boolean;
}

/** Creates workers that open in a later event-loop turn, and return the inputs of every run. */
function createFakeWorkers() {
  const workers: FakeWorker[] = [];
  const state = { isFailing: false };

  const start: StartWorker = (_model, _options, { onMessage, onExit }) => {
    const worker: FakeWorker = { onMessage, onExit, received: [], killed: false, hangs: false };
    workers.push(worker);
    setImmediate(() => {
      if (state.isFailing)
        onMessage({
          kind: "open-failed",
          error: toErrorFields(coreErrors.sessionFailed("no memory")),
        });
      else
        onMessage({
          kind: "ready",
          inputs: [spec],
          outputs: [spec],
          memoryBytes: 1_000 * workers.length,
        });
    });
    return {
      pid: undefined,
      keepAlive: () => {},
      kill() {
        worker.killed = true;
        onExit("by SIGKILL");
      },
      send(request) {
        worker.received.push(request);
        if (worker.hangs) return;
        if (request.kind === "close") onExit("with exit code 0");
        else
          onMessage({
            kind: "run-completed",
            id: request.id,
            outputs: request.inputs,
            nodes: undefined,
          });
      },
    };
  };
  return { workers, state, start };
}

function createSupervisedSessionFixture() {
  const clock = new ManualClock();
  const events: WorkerEvent["event"][] = [];
  const { workers, state, start } = createFakeWorkers();
  const runtime = createWorkerRuntime(start, "fake workers", {
    clock,
    onEvent: ({ event }) => events.push(event),
    restartPolicy: {
      initialDelayMs: 100,
      maxDelayMs: 400,
      maxAttempts: 3,
      restartWaitMs: 1_000,
      disposalTimeoutMs: 5_000,
    },
  });
  return {
    clock,
    events,
    workers,
    runtime,
    setFailing: (isFailing: boolean) => (state.isFailing = isFailing),
    open: () => runtime.createSession(new Uint8Array(7)),
  };
}

it("doubles the delay with each consecutive exit, and resets it after a successful run", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  const delays: number[] = [];
  for (const hasRun of [false, false, false, false, true, false]) {
    if (hasRun) await session.run(singleInput);
    const before = clock.now();
    const count = workers.length;
    workers.at(-1)?.onExit("by SIGSEGV");
    await flushMicrotasks();
    while (workers.length === count && clock.now() < before + 10_000) {
      clock.advance(50);
      await flushMicrotasks();
    }
    delays.push(clock.now() - before);
    await flushMicrotasks();
  }
  expect(delays).toEqual([100, 200, 400, 400, 100, 200]);
});

it("lets a run wait for the restart", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  const run = session.run(singleInput);
  clock.advance(100);
  expect(await run).toEqual(singleInput);
  expect(session.memoryBytes).toBe(2_007); // the second worker's memory, and the model's
});

it("fails a run with a retryable error if the restart takes too long", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  const run = session.run(singleInput);
  clock.advance(1_000); // leaves the new worker no turn to open
  await expect(run).rejects.toMatchObject({
    code: "session_being_replaced",
    status: 503,
    retryable: true,
  });
});

it("stops restarting after consecutive failures, until a later run starts new attempts", async () => {
  const { clock, workers, events, setFailing, open } = createSupervisedSessionFixture();
  const session = await open();
  setFailing(true);
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  const failure = session.run(singleInput).catch((error: unknown) => error);
  for (const delayMs of [100, 200, 400]) {
    clock.advance(delayMs);
    await flushMicrotasks();
  }
  const notReplaced = {
    code: "session_not_replaced",
    status: 503,
    retryable: true,
    detail: expect.stringMatching(/\b3\b.*no memory/),
  };
  expect(await failure).toMatchObject(notReplaced);
  expect(events).toEqual([
    "session_worker_started",
    "session_worker_ended",
    ...Array.from({ length: 3 }, () => "session_worker_not_started"),
    "session_given_up",
  ]);

  clock.advance(399);
  await expect(session.run(singleInput)).rejects.toMatchObject(notReplaced);
  expect(workers).toHaveLength(4);

  setFailing(false);
  clock.advance(1);
  const run = session.run(singleInput);
  clock.advance(100);
  expect(await run).toEqual(singleInput);
  await session.dispose();
  clock.advance(10_000);
  expect(workers).toHaveLength(5);
});

it("does not start another worker after its disposal", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  await session.dispose(); // during the delay
  clock.advance(10_000);
  await flushMicrotasks();
  expect(workers).toHaveLength(1);
  await expect(session.run(singleInput)).rejects.toMatchObject({ code: "session_failed" });
});

it("kills a hanging worker when the session is disposed of", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  workers.forEach((worker) => (worker.hangs = true));
  const failure = session.run(singleInput).catch((error: unknown) => error);
  const disposed = session.dispose();
  clock.advance(4_999);
  expect(workers[0]?.killed).toBe(false);
  clock.advance(1);
  await disposed;
  expect(await failure).toMatchObject({ code: "session_lost" });
});

it("closes a worker that opens during the disposal", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  clock.advance(100);
  await new Promise((resolve) => process.nextTick(resolve)); // the worker has started, but is not open yet
  expect(workers).toHaveLength(2);
  await session.dispose();
  expect(workers[1]?.received).toEqual([{ kind: "close" }]);
});

it("fails if the worker ends before its session is open, or if the signal is aborted", async () => {
  const { workers, runtime } = createSupervisedSessionFixture();
  const controller = new AbortController();
  const opening = runtime.createSession(new Uint8Array(), {}, controller.signal);
  controller.abort();
  await expect(opening).rejects.toMatchObject({ code: "session_lost", retryable: true });
  expect(workers[0]?.killed).toBe(true);
  await expect(
    runtime.createSession(new Uint8Array(), {}, controller.signal),
  ).rejects.toMatchObject({ code: "session_failed" });
  expect(workers).toHaveLength(1);
});

it("opens a session with the runtime's options as defaults", async () => {
  const received: NativeSessionOptions[] = [];
  const runtime = createWorkerRuntime(
    (_model, options, { onExit }) => {
      received.push(options);
      queueMicrotask(() => onExit("immediately"));
      return { pid: undefined, send: () => {}, keepAlive: () => {}, kill: () => {} };
    },
    "fake workers",
    { session: { intraOpThreads: 2, graphOptimization: "basic" } },
  );
  await expect(
    runtime.createSession(new Uint8Array(), {
      intraOpThreads: undefined,
      graphOptimization: "all",
      label: "m@1",
    }),
  ).rejects.toMatchObject({ code: "session_lost" });
  expect(received).toEqual([{ intraOpThreads: 2, graphOptimization: "all", label: "m@1" }]);
});
