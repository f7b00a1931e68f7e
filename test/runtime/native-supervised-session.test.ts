// When and how often a session's worker is replaced, with workers that end as the test says and time that it moves.
import { coreErrors } from "../../src/core/common-errors.ts";
import { expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { createWorkerRuntime } from "../../src/runtime/native/isolated-runtime.ts";
import {
  toErrorFields,
  type WorkerRequest,
  type WorkerEvents,
} from "../../src/runtime/native/worker-messages.ts";
import type { WorkerEvent } from "../../src/runtime/native/supervised-session.ts";
import type { NativeSessionOptions } from "../../src/runtime/native/session-options.ts";

const spec = { name: "x", datatype: "INT32", shape: [1] } as const;
const singleInput: NamedTensors = { x: { datatype: "INT32", shape: [1], data: Int32Array.of(1) } };
/** Lets everything happen that waits for no time. */
async function flushMicrotasks(): Promise<void> {
  for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve));
}

/** Workers that open in a later turn, and answer every run with its inputs. */
function createSupervisedSessionFixture() {
  const clock = new ManualClock();
  const events: WorkerEvent["event"][] = [];
  const workers: (WorkerEvents & {
    readonly received: WorkerRequest[];
    killed: boolean;
    hangs: boolean;
  })[] = [];
  let refusing = false;
  const runtime = createWorkerRuntime(
    (_model, _options, { onMessage: onMessage, onExit: onExit }) => {
      const worker = {
        onMessage: onMessage,
        onExit: onExit,
        received: [] as WorkerRequest[],
        killed: false,
        hangs: false,
      };
      workers.push(worker);
      setImmediate(() => {
        if (refusing)
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
        send(sent) {
          worker.received.push(sent);
          if (worker.hangs) return;
          if (sent.kind === "close") onExit("with exit code 0");
          else
            onMessage({
              kind: "run-completed",
              id: sent.id,
              outputs: sent.inputs,
              nodes: undefined,
            });
        },
      };
    },
    "made by the test",
    {
      clock,
      onEvent: ({ event }) => events.push(event),
      restartPolicy: {
        initialDelayMs: 100,
        maxDelayMs: 400,
        maxAttempts: 3,
        restartWaitMs: 1_000,
        disposalTimeoutMs: 5_000,
      },
    },
  );
  return {
    clock,
    events,
    workers,
    runtime,
    refuse: (refuse: boolean) => (refusing = refuse),
    open: () => runtime.createSession(new Uint8Array(7)),
  };
}

it("waits longer with each end that no answer lies between, and little again after an answer", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  const delays: number[] = [];
  for (const answered of [false, false, false, false, true, false]) {
    if (answered) await session.run(singleInput);
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

it("lets a run wait for the replacement", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  const run = session.run(singleInput);
  clock.advance(100);
  expect(await run).toEqual(singleInput);
  expect(session.memoryBytes).toBe(2_007); // of the second worker, and the model
});

it("fails a run retryably that would wait too long for it", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  const run = session.run(singleInput);
  clock.advance(1_000); // at once: the worker that is started meanwhile has no turn to open
  await expect(run).rejects.toMatchObject({
    code: "session_being_replaced",
    status: 503,
    retryable: true,
  });
});

it("gives up after some tries in a row, until it is asked to run again later", async () => {
  const { clock, workers, events, refuse, open } = createSupervisedSessionFixture();
  const session = await open();
  refuse(true);
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  const failure = session.run(singleInput).catch((error: unknown) => error);
  for (const delayMs of [100, 200, 400]) {
    clock.advance(delayMs);
    await flushMicrotasks();
  }
  const givenUp = {
    code: "session_not_replaced",
    status: 503,
    retryable: true,
    detail: expect.stringMatching(/in 3 tries: .*no memory/),
  };
  expect(await failure).toMatchObject(givenUp);
  expect(events).toEqual([
    "session_worker_started",
    "session_worker_ended",
    ...Array.from({ length: 3 }, () => "session_worker_not_started"),
    "session_given_up",
  ]);

  clock.advance(399);
  await expect(session.run(singleInput)).rejects.toMatchObject(givenUp);
  expect(workers).toHaveLength(4);

  refuse(false);
  clock.advance(1);
  const run = session.run(singleInput);
  clock.advance(100);
  expect(await run).toEqual(singleInput);
  await session.dispose();
  clock.advance(10_000);
  expect(workers).toHaveLength(5);
});

it("does not start another worker once it has been disposed of", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  await session.dispose(); // while it waits
  clock.advance(10_000);
  await flushMicrotasks();
  expect(workers).toHaveLength(1);
  await expect(session.run(singleInput)).rejects.toMatchObject({ code: "session_failed" });
});

it("kills a worker that hangs when the session is disposed of", async () => {
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

it("ends a worker that opens while the session is disposed of", async () => {
  const { clock, workers, open } = createSupervisedSessionFixture();
  const session = await open();
  workers[0]?.onExit("by SIGSEGV");
  await flushMicrotasks();
  clock.advance(100);
  await new Promise((resolve) => process.nextTick(resolve)); // it has been started, and is not yet open
  expect(workers).toHaveLength(2);
  await session.dispose();
  expect(workers[1]?.received).toEqual([{ kind: "end" }]);
});

it("is refused at once where the worker ends before its session is open, or is not wanted any more", async () => {
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

it("opens a session with the runtime's options where it says nothing itself", async () => {
  const asked: NativeSessionOptions[] = [];
  const runtime = createWorkerRuntime(
    (_model, options, { onExit: ended }) => {
      asked.push(options);
      queueMicrotask(() => ended("at once"));
      return { pid: undefined, send: () => {}, keepAlive: () => {}, kill: () => {} };
    },
    "made by the test",
    { session: { intraOpThreads: 2, graphOptimization: "basic" } },
  );
  await expect(
    runtime.createSession(new Uint8Array(), {
      intraOpThreads: undefined,
      graphOptimization: "all",
      label: "m@1",
    }),
  ).rejects.toMatchObject({ code: "session_lost" });
  expect(asked).toEqual([{ intraOpThreads: 2, graphOptimization: "all", label: "m@1" }]);
});
