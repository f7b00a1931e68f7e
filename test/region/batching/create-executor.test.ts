// The executor: what shares a run, whose answer is whose, what a failing run does to its works, and what is told of runs.
import { coreErrors } from "../../../src/core/common-errors.ts";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import type { NamedTensors, Tensor } from "../../../src/core/tensor.ts";
import { createExecutor } from "../../../src/region/server/batching/create-executor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { readFixture } from "../region-fixture.ts";
import {
  createManualSession,
  createExecutorFixture,
  flushEventLoop,
  createTensors,
  TEST_TIER,
} from "./manual-session.ts";

describe("what shares a run", () => {
  it("a single work of more rows than a batch runs by itself", async () => {
    const { send, endRun, reasons } = createExecutorFixture({ maxBatchRows: 2 });
    send([1]);
    send([2, 2, 2]);
    send([3]);
    for (let run = 0; run < 3; run++) await endRun();
    expect(reasons()).toEqual(["idle 1", "full 3", "idle 1"]);
  });

  it("nothing, where the model's first dimension is fixed", async () => {
    const { send, endRun, runs, session, onUnbatchable } = createExecutorFixture();
    Object.assign(session, { inputs: [{ name: "x", datatype: "FP32", shape: [1, -1] }] });
    [1, 2, 3].forEach((id) => send([id]));
    for (let run = 0; run < 3; run++) await endRun();
    expect(runs).toHaveLength(3);
    expect(onUnbatchable).not.toHaveBeenCalled();
  });
});

describe("who is refused", () => {
  it("work whose tensors do not fit the model, at once and alone", async () => {
    const { send, executor, session, endRun, answers } = createExecutorFixture();
    send([1]);
    send([2]);
    const short: Tensor = { datatype: "FP32", shape: [2, 1], data: Float32Array.of(1) };
    await expect(
      executor.execute({ session, tier: TEST_TIER, inputs: { x: short } }),
    ).rejects.toMatchObject({ code: "invalid_tensor" });
    await endRun();
    await endRun();
    expect(answers).toEqual({ 1: [1], 2: [2] });
  });

  it.each([
    coreErrors.sessionFailed("out of range"),
    coreErrors.invalidTensor("x", "out of range"),
  ])("a work that fails its batch with $code fails alone", async (error) => {
    const { send, runs, endRun, answers } = createExecutorFixture();
    [1, 2, 3, 4].forEach((id) => send([id]));
    await endRun();
    runs.at(-1)?.fail(error); // of 2, 3 and 4
    await flushEventLoop();
    await endRun(); // 2
    runs.at(-1)?.fail(error); // 3
    await flushEventLoop();
    expect(answers).toEqual({ 1: [1], 2: [2], 3: error.code });
    await endRun();
    expect(answers).toMatchObject({ 4: [4] });
  });

  it("a failure that is no work's fault is that of them all, without another run", async () => {
    const { send, runs, endRun, answers } = createExecutorFixture();
    [1, 2, 3].forEach((id) => send([id]));
    await endRun();
    runs.at(-1)?.fail(new Error("broken"));
    await flushEventLoop();
    expect(answers).toEqual({ 1: [1], 2: "Error: broken", 3: "Error: broken" });
    expect(runs).toHaveLength(2);
    send([4]);
    await endRun();
    expect(answers).toMatchObject({ 4: [4] });
  });

  it("who leaves while the batch is tried again is left out", async () => {
    const { send, runs, endRun, firsts } = createExecutorFixture();
    const client = new AbortController();
    send([1]);
    send([2]);
    send([3], { signal: client.signal });
    await endRun();
    runs.at(-1)?.fail(coreErrors.sessionFailed("out of range"));
    await flushEventLoop();
    client.abort();
    await endRun();
    expect(firsts()).toEqual([[1], [2, 3], [2]]);
  });
});

describe("a model whose outputs have no row for each of a batch", () => {
  it("runs its works one by one from then on, and is reported once", async () => {
    const { send, runs, endRun, answers, onUnbatchable } = createExecutorFixture();
    const pooled: NamedTensors = {
      sum: { datatype: "FP32", shape: [1, 1], data: Float32Array.of(9) },
    };
    [1, 2, 3].forEach((id) => send([id]));
    await endRun();
    runs.at(-1)?.complete(pooled);
    await flushEventLoop();
    [4, 5].forEach((id) => send([id]));
    for (let run = 0; run < 4; run++) await endRun();
    expect(answers).toEqual({ 1: [1], 2: [2], 3: [3], 4: [4], 5: [5] });
    expect(runs.map((run) => run.rows.length)).toEqual([1, 2, 1, 1, 1, 1]);
    expect(onUnbatchable.mock.calls).toEqual([
      [{ tier: TEST_TIER, problem: "output sum has shape [1, 1] for a batch of 2 rows" }],
    ]);
  });
});

describe("instances", () => {
  it("make two runs at a time, where there are two", async () => {
    const { send, runs, firsts } = createExecutorFixture({ instances: 2 });
    [1, 2, 3, 4].forEach((id) => send([id]));
    await flushEventLoop();
    expect(firsts()).toEqual([[1], [2]]);
    runs[0]?.complete();
    await flushEventLoop();
    expect(firsts()).toEqual([[1], [2], [3, 4]]);
  });

  it("a run's buffers are its own until it is over", async () => {
    const { send, runs, answers } = createExecutorFixture({ instances: 2, maxBatchRows: 2 });
    [1, 2, 3, 4, 5, 6].forEach((id) => send([id]));
    await flushEventLoop();
    for (const run of [0, 1, 3, 2]) {
      runs[run]?.complete();
      await flushEventLoop();
    }
    expect(runs.map((run) => run.rows.length)).toEqual([1, 1, 2, 2]);
    expect(answers).toEqual({ 1: [1], 2: [2], 3: [3], 4: [4], 5: [5], 6: [6] });
  });
});

describe("what is told of runs", () => {
  it("who shared it, why it went then, and what each waited", async () => {
    const { send, endRun, clock, reports } = createExecutorFixture();
    send([1]);
    send([2]);
    clock.advance(3);
    send([3, 3]);
    clock.advance(2);
    await endRun();
    clock.advance(7);
    await endRun();
    const times = { inputMs: 0, outputMs: 0, hasFailed: false, tracedRequests: [] };
    expect(reports).toEqual([
      {
        tier: TEST_TIER,
        requestCount: 1,
        rows: 1,
        reason: "idle",
        queueTimesMs: [0],
        inferMs: 5,
        startedAtMs: 0,
        ...times,
      },
      {
        tier: TEST_TIER,
        requestCount: 2,
        rows: 3,
        reason: "idle",
        queueTimesMs: [5, 2],
        inferMs: 7,
        startedAtMs: 5,
        ...times,
      },
    ]);
  });

  it("that a shared one failed, and then of each by itself", async () => {
    const { send, endRun, runs, clock, reports } = createExecutorFixture();
    [1, 2, 3].forEach((id) => send([id]));
    await endRun();
    clock.advance(4);
    runs.at(-1)?.fail(coreErrors.sessionFailed("out of range"));
    await flushEventLoop();
    clock.advance(6);
    await endRun();
    await endRun();
    expect(reports.slice(1)).toMatchObject([
      {
        requestCount: 2,
        rows: 2,
        reason: "idle",
        queueTimesMs: [0, 0],
        inferMs: 4,
        hasFailed: true,
      },
      {
        requestCount: 1,
        rows: 1,
        reason: "retry",
        queueTimesMs: [4],
        inferMs: 6,
        hasFailed: false,
      },
      {
        requestCount: 1,
        rows: 1,
        reason: "retry",
        queueTimesMs: [10],
        inferMs: 0,
        hasFailed: false,
      },
    ]);
  });

  it("with mode off, each has its own", async () => {
    const { send, endRun, reasons } = createExecutorFixture({
      mode: "off",
      preferredBatchRows: [2],
      maxQueueDelayUs: 1_000,
    });
    [1, 2, 3].forEach((id) => send([id]));
    for (let run = 0; run < 3; run++) await endRun();
    expect(reasons()).toEqual(["single 1", "single 1", "single 1"]);
  });
});

describe("a session that is let go", () => {
  it("leaves nothing behind", async () => {
    setFlagsFromString("--expose-gc");
    const collect: () => void = runInNewContext("gc");
    const executor = createExecutor();
    async function serve(): Promise<WeakRef<object>> {
      const { session, runs } = createManualSession();
      const done = executor.execute({ session, tier: TEST_TIER, inputs: createTensors([1]) });
      await flushEventLoop();
      runs[0]?.complete();
      await done;
      return new WeakRef(session);
    }
    const session = await serve();
    expect(executor.queueStates()).toHaveLength(1);
    await flushEventLoop();
    collect();
    await flushEventLoop();
    collect();
    expect(session.deref()).toBeUndefined();
    expect(executor.queueStates()).toEqual([]);
  });
});

describe("on the native runtime", () => {
  it("one work that the model cannot take does not fail its neighbours", async () => {
    const session = await createNativeRuntime({ intraOpThreads: 1 }).createSession(
      await readFixture("bag-of-tokens.onnx"),
    );
    const executor = createExecutor();
    const tokens = (id: bigint): NamedTensors => ({
      input_ids: { datatype: "INT64", shape: [1, 1], data: BigInt64Array.of(id) },
      attention_mask: { datatype: "INT64", shape: [1, 1], data: BigInt64Array.of(1n) },
    });
    const outcomes = await Promise.allSettled(
      [4n, 5n, 99n, 6n].map((id) =>
        executor.execute({ session, tier: TEST_TIER, inputs: tokens(id) }),
      ),
    );
    await session.dispose();
    expect(
      outcomes.map((one) =>
        one.status === "fulfilled" ? [...(one.value["logits"]?.data ?? [])] : one.reason.code,
      ),
    ).toEqual([[1, 0], [0, 1], "session_failed", [2, -1]]);
  });
});
