// Triton's seven cases of queue policies, with its names and times (qa/L0_model_queue/model_queue_test.py and test.sh).
// Triton's clients measure latencies; these tests move a manual clock and inspect runs.
import { describe, expect, it } from "vitest";
import type { BatchingConfig } from "../../../src/registry/serving-config.ts";
import {
  createExecutorFixture,
  flushEventLoop,
  type ExecutorFixtureOptions,
} from "./manual-session.ts";

/** Ten seconds: longer than every case, except where a case waits for this delay. */
const DELAY_MS = 10_000;
const base: ExecutorFixtureOptions = {
  maxBatchRows: 32,
  preferredBatchRows: [4, 8],
  maxQueueDelayUs: DELAY_MS * 1_000,
};

/** Rows of one request, which all contain its id. */
const createRows = (count: number, id: number) => Array.from({ length: count }, () => id);

describe("Triton's queue size and timeouts", () => {
  it("test_max_queue_size: 8 of 10 requests behind a running batch are queued", async () => {
    const { send, endRun, answers, reasons } = createExecutorFixture({
      maxBatchRows: 32,
      preferredBatchRows: [4, 8],
      queue: { maxQueueSize: 8 },
    });
    send(createRows(8, 100));
    await flushEventLoop();
    for (let id = 1; id <= 10; id++) send([id]);
    await flushEventLoop();
    expect(answers).toEqual({ 9: "queue_full", 10: "queue_full" });
    await endRun();
    await endRun();
    expect(reasons()).toEqual(["preferred 8", "preferred 8"]);
    expect(answers[8]).toEqual([8]);
  });

  it("test_policy_delay: a timed-out request moves behind later ones, which form a batch without it", async () => {
    const { send, clock, firsts, runs, endRun, reports } = createExecutorFixture({
      ...base,
      queue: { timeoutAction: "delay", defaultTimeoutUs: 100_000 },
    });
    send([1]);
    await flushEventLoop();
    clock.advance(200);
    send([2, 2]);
    send([3, 3]);
    await flushEventLoop();
    expect(firsts()).toEqual([[2, 2, 3, 3]]);
    await endRun();
    clock.advance(DELAY_MS - 201);
    expect(runs).toHaveLength(1);
    clock.advance(1);
    await endRun();
    expect(reports).toMatchObject([
      { reason: "preferred" },
      { reason: "delay", rows: 1, queueTimesMs: [DELAY_MS] },
    ]);
  });

  it("test_policy_reject: a timed-out request is rejected, and later ones form a batch", async () => {
    const { send, clock, firsts, answers } = createExecutorFixture({
      ...base,
      queue: { defaultTimeoutUs: 100_000 },
    });
    send([1]);
    await flushEventLoop();
    clock.advance(200);
    send([2, 2]);
    send([3, 3]);
    await flushEventLoop();
    expect(answers).toEqual({ 1: "request_expired" });
    expect(firsts()).toEqual([[2, 2, 3, 3]]);
  });
});

describe("Triton's timeout override", () => {
  describe("test_timeout_override: a request's own timeout can only shorten the default", () => {
    it.each([
      { timeoutMs: 100, expectedMs: 100 },
      { timeoutMs: 10_000, expectedMs: 1_000 },
      { timeoutMs: undefined, expectedMs: 1_000 },
    ])("$timeoutMs ms becomes $expectedMs ms", async ({ timeoutMs, expectedMs }) => {
      const { send, clock, firsts, runs, answers } = createExecutorFixture({
        ...base,
        queue: { allowTimeoutOverride: true, defaultTimeoutUs: 1_000_000 },
      });
      send([1], { expiresAtMs: timeoutMs });
      await flushEventLoop();
      clock.advance(50);
      send([2, 2]);
      // These are no batch of 4 while the first request is ahead of them.
      send([3, 3]);
      await flushEventLoop();
      clock.advance(expectedMs - 51);
      await flushEventLoop();
      expect(answers).toEqual({});
      expect(runs).toEqual([]);
      clock.advance(1);
      await flushEventLoop();
      expect(answers).toEqual({ 1: "request_expired" });
      expect(firsts()).toEqual([[2, 2, 3, 3]]);
    });
  });
});

describe("Triton's priorities", () => {
  it.each([
    { name: "test_priority_levels", priorityLevels: 2 },
    { name: "test_max_priority_levels, 64 in this test", priorityLevels: 64 },
  ])(
    "$name: a higher priority overtakes queued requests, and forms a batch with the first of them",
    async ({ priorityLevels }) => {
      const { send, clock, firsts, runs, endRun, reports } = createExecutorFixture({
        ...base,
        queue: { priorityLevels, defaultPriorityLevel: priorityLevels },
      });
      send([1, 1]);
      await flushEventLoop();
      clock.advance(100);
      send([2], { priority: priorityLevels });
      await flushEventLoop();
      clock.advance(200);
      send([3, 3], { priority: 1 });
      await flushEventLoop();
      expect(firsts()).toEqual([[3, 3, 1, 1]]);
      await endRun();
      clock.advance(DELAY_MS - 201);
      expect(runs).toHaveLength(1);
      clock.advance(1);
      await endRun();
      expect(reports.at(-1)).toMatchObject({ reason: "delay", rows: 1, queueTimesMs: [DELAY_MS] });
    },
  );
});

describe("Triton's policies by priority", () => {
  it("test_priority_with_policy: each priority has its own policy, in this case delay and reject", async () => {
    const queue = {
      priorityLevels: 2,
      defaultPriorityLevel: 2,
      timeoutAction: "delay" as const,
      defaultTimeoutUs: 11_000_000,
      byPriority: { 2: { timeoutAction: "reject" as const } },
    };
    const batching: BatchingConfig = { ...base, preferredBatchRows: [4, 8, 32], queue };
    const { send, clock, firsts, runs, answers, endRun, reports } = createExecutorFixture(batching);
    const requests = [
      { count: 2, priority: 1 },
      { count: 1, priority: 1, timeoutMs: 1_000 },
      { count: 2, priority: 1 },
      { count: 2, priority: 2, timeoutMs: 2_000 },
      { count: 3, priority: 2 },
      { count: 6, priority: 2 },
    ];
    for (const [index, { count, priority, timeoutMs }] of requests.entries()) {
      send(createRows(count, index + 1), {
        priority,
        expiresAtMs: timeoutMs === undefined ? undefined : clock.now() + timeoutMs,
      });
      await flushEventLoop();
      clock.advance(200);
    }
    await flushEventLoop();
    // At 1,200 ms, the second request has timed out and is delayed; the first and the third form a batch.
    expect(firsts()).toEqual([[1, 1, 3, 3]]);
    await endRun();
    clock.advance(2_599 - 1_200);
    await flushEventLoop();
    expect(answers).not.toHaveProperty("4");
    expect(runs).toHaveLength(1);
    // At 2,600 ms, the fourth request has timed out and is rejected; the second and the fifth form a batch.
    clock.advance(1);
    await flushEventLoop();
    expect(answers[4]).toBe("request_expired");
    expect(firsts()[1]).toEqual([2, 5, 5, 5]);
    await endRun();
    // The sixth request arrived at 1,000 ms.
    clock.advance(DELAY_MS + 1_000 - 2_601);
    expect(runs).toHaveLength(2);
    clock.advance(1);
    await endRun();
    expect(reports.at(-1)).toMatchObject({ reason: "delay", rows: 6, queueTimesMs: [DELAY_MS] });
  });
});
