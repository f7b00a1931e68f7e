import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
// The executor: which requests share a run, which outputs each gets, the effect of a failing run, and the reports of runs.
import { coreErrors } from "../../../src/core/common-errors.ts";
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

describe("a shared run", () => {
  it("excludes a single request of more rows than a batch, which runs alone", async () => {
    const { send, endRun, reasons } = createExecutorFixture({ maxBatchRows: 2 });
    send([1]);
    send([2, 2, 2]);
    send([3]);
    for (let run = 0; run < 3; run++) await endRun();
    expect(reasons()).toEqual(["idle 1", "full 3", "idle 1"]);
  });

  it("does not exist if the model's first dimension is fixed", async () => {
    const { send, endRun, runs, session, onUnbatchable } = createExecutorFixture();
    Object.assign(session, { inputs: [{ name: "x", datatype: "FP32", shape: [1, -1] }] });
    [1, 2, 3].forEach((id) => send([id]));
    for (let run = 0; run < 3; run++) await endRun();
    expect(runs).toHaveLength(3);
    expect(onUnbatchable).not.toHaveBeenCalled();
  });
});

describe("a failure", () => {
  it("rejects a request whose tensors do not fit the model, immediately and alone", async () => {
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
  ])("fails only the request that fails its batch with $code", async (error) => {
    const { send, runs, endRun, answers } = createExecutorFixture();
    [1, 2, 3, 4].forEach((id) => send([id]));
    await endRun();
    // The run of the requests 2, 3 and 4 fails.
    runs.at(-1)?.fail(error);
    await flushEventLoop();
    // The retry of request 2 succeeds; that of request 3 fails.
    await endRun();
    runs.at(-1)?.fail(error);
    await flushEventLoop();
    expect(answers).toEqual({ 1: [1], 2: [2], 3: error.code });
    await endRun();
    expect(answers).toMatchObject({ 4: [4] });
  });

  it("fails the whole batch without a retry if no request causes it", async () => {
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

  it("is not retried for a client that has disconnected", async () => {
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

describe("a model whose outputs lack a row for each row of the batch", () => {
  it("runs its requests one by one afterwards, and is reported once", async () => {
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
      [{ tier: TEST_TIER, problem: expect.stringMatching(/\bsum\b.*\[1, 1\].*\b2\b/) }],
    ]);
  });
});

describe("two instances", () => {
  it("execute two runs at a time", async () => {
    const { send, runs, firsts } = createExecutorFixture({ instances: 2 });
    [1, 2, 3, 4].forEach((id) => send([id]));
    await flushEventLoop();
    expect(firsts()).toEqual([[1], [2]]);
    runs[0]?.complete();
    await flushEventLoop();
    expect(firsts()).toEqual([[1], [2], [3, 4]]);
  });

  it("never share the buffers of unfinished runs", async () => {
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

describe("the report of a run", () => {
  it("contains the number of requests, the dispatch reason and each queue time", async () => {
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
});

describe("the reports of retries and single runs", () => {
  it("show the failed shared run, then the retry of each request", async () => {
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

  it("show one run for each request in mode off", async () => {
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

describe("an executor", () => {
  it("keeps nothing of a session that is no longer referenced", async () => {
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

describe("the native runtime", () => {
  it("fails only the request with an invalid token, not the others of its batch", async () => {
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
      outcomes.map((outcome) =>
        outcome.status === "fulfilled"
          ? [...(outcome.value["logits"]?.data ?? [])]
          : outcome.reason.code,
      ),
    ).toEqual([[1, 0], [0, 1], "session_failed", [2, -1]]);
  });
});
