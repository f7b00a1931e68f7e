// The adaptive policy: what it has learned decides how much runs, and whether waiting for more is worth it.
import { describe, expect, it } from "vitest";
import { createAdaptivePolicy } from "../../../src/region/server/batching/adaptive-policy.ts";
import type { BatchCandidate } from "../../../src/region/server/batching/dispatch-policy.ts";
import { createExecutionTimeEstimator } from "../../../src/region/server/batching/execution-time-estimator.ts";

const rowCountsUpTo = (rows: number) => Array.from({ length: rows }, (_, index) => index + 1);

/** A policy that knows `runMs` for the sizes, and has seen a row every `gapMs` for half a second. */
function createTrainedPolicy(
  runMs: (rows: number) => number,
  sizes: readonly number[],
  gapMs: number,
) {
  const policy = createAdaptivePolicy();
  for (const rows of sizes)
    for (let run = 0; run < 1_000; run++) policy.recordRun?.(rows, runMs(rows));
  for (let atMs = 0; atMs < 500; atMs += gapMs) policy.recordArrival?.(1, atMs);
  return (rows: number, view: Partial<BatchCandidate> = {}) =>
    policy.decide({
      nowMs: 500,
      cumulativeRows: rowCountsUpTo(rows),
      limitReason: undefined,
      oldestQueuedAtMs: 500,
      deadlineAtMs: Infinity,
      runsInFlight: 0,
      instanceCount: 1,
      ...view,
    });
}

describe("execution times", () => {
  it("are averages by size, interpolated between sizes", () => {
    const times = createExecutionTimeEstimator();
    expect(times.estimateMs(4)).toBeUndefined();
    times.record(4, 10);
    expect([1, 4, 9].map(times.estimateMs)).toEqual([2.5, 10, 10]);
    times.record(8, 14);
    expect([2, 6, 8, 16].map(times.estimateMs)).toEqual([5, 12, 14, 22]);
    times.record(2, 8);
    for (let run = 0; run < 300; run++) times.record(8, 20);
    expect(times.estimateMs(3)).toBe(9);
    expect(times.estimateMs(8)).toBeCloseTo(20);
  });

  it("runs of about the same size count as one size, at their average", () => {
    const times = createExecutionTimeEstimator();
    times.record(1, 3);
    for (const rows of [18, 20, 22]) times.record(rows, 2 + rows);
    expect(times.estimateMs(20)).toBeCloseTo(22);
    expect(times.estimateMs(40)).toBeCloseTo(42);
  });

  it("the best that a size may be comes closer with every run", () => {
    const times = createExecutionTimeEstimator();
    times.record(4, 10);
    expect(times.optimisticEstimateMs(4)).toBeCloseTo(7);
    for (let run = 1; run < 100; run++) times.record(4, 10);
    expect(times.optimisticEstimateMs(4)).toBeCloseTo(9.7);
  });

  it("larger sizes are never thought to be quicker", () => {
    const times = createExecutionTimeEstimator();
    times.record(1, 10);
    times.record(2, 6);
    expect(times.estimateMs(10)).toBe(6);
  });
});

describe("how much runs", () => {
  it("everything while nothing is known", () => {
    expect(createTrainedPolicy(() => 0, [], 5)(5)).toEqual({
      kind: "dispatch",
      requestCount: 5,
      reason: "idle",
    });
  });

  it("everything where a run costs much by itself", () => {
    const decide = createTrainedPolicy((rows) => 40 + rows, [1, 8, 16], 5);
    expect(decide(16, { limitReason: "full" })).toEqual({
      kind: "dispatch",
      requestCount: 16,
      reason: "full",
    });
  });

  it("one by one where a batch takes as long as its rows, now and then more to see whether that is still so", () => {
    const decide = createTrainedPolicy((rows) => 5 * rows, [1, 8, 16], 5);
    const reasons = Array.from({ length: 64 }, () => decide(16)).map(
      (decision) => decision.kind === "dispatch" && `${decision.reason} ${decision.requestCount}`,
    );
    expect(reasons.filter((one) => one === "throughput 1")).toHaveLength(63);
    expect(reasons.filter((one) => one === "explore 2")).toHaveLength(1);
  });

  it("only as much as still runs well together", () => {
    const decide = createTrainedPolicy(
      (rows) => (rows <= 8 ? 8 + rows : 4 * rows),
      [1, 4, 8, 16],
      5,
    );
    expect(decide(16)).toEqual({ kind: "dispatch", requestCount: 8, reason: "throughput" });
  });

  it("everything where it is not known well enough to be worse", () => {
    const policy = createAdaptivePolicy();
    const decide = () =>
      policy.decide({
        nowMs: 0,
        cumulativeRows: rowCountsUpTo(16),
        limitReason: "full",
        oldestQueuedAtMs: 0,
        deadlineAtMs: Infinity,
        runsInFlight: 0,
        instanceCount: 1,
      });
    for (const rows of [1, 4])
      for (let run = 0; run < 100; run++) policy.recordRun?.(rows, 4 + rows);
    policy.recordRun?.(16, 40);
    expect(decide()).toMatchObject({ requestCount: 16 });
    for (let run = 0; run < 20; run++) policy.recordRun?.(16, 40);
    expect(decide()).toMatchObject({ requestCount: 4 });
  });
});

describe("whether to wait", () => {
  const costly = (rows: number) => 20 + rows;
  const busy = { runsInFlight: 1, instanceCount: 2 };

  it("not with a session that makes one run at a time", () => {
    expect(createTrainedPolicy(costly, [1, 8, 16], 2)(1)).toEqual({
      kind: "dispatch",
      requestCount: 1,
      reason: "idle",
    });
  });

  it("not where all instances are free", () => {
    expect(
      createTrainedPolicy(costly, [1, 8, 16], 2)(1, { runsInFlight: 0, instanceCount: 2 }),
    ).toEqual({
      kind: "dispatch",
      requestCount: 1,
      reason: "idle",
    });
  });

  it("not while runs of what is at hand keep up easily with what comes", () => {
    expect(createTrainedPolicy(costly, [1, 8, 16], 25)(1, busy)).toEqual({
      kind: "dispatch",
      requestCount: 1,
      reason: "idle",
    });
  });

  it("while another instance runs, for a time that depends on what sharing a run saves", () => {
    const decide = createTrainedPolicy(costly, [1, 8, 16], 2);
    expect(decide(2, busy)).toEqual({ kind: "wait", untilAtMs: 500 + (1.5 * 20) / 2 });
    expect(decide(2, { ...busy, instanceCount: 4 })).toEqual({
      kind: "wait",
      untilAtMs: 500 + (1.5 * 20) / 4,
    });
    expect(decide(2, { ...busy, nowMs: 515 })).toEqual({
      kind: "dispatch",
      requestCount: 2,
      reason: "delay",
    });
  });

  it("not where sharing a run saves nothing", () => {
    expect(createTrainedPolicy((rows) => 5 * rows, [1, 2, 4], 2)(1, busy)).toMatchObject({
      kind: "dispatch",
      requestCount: 1,
    });
  });

  it("not where somebody could come late by it", () => {
    const decide = createTrainedPolicy(costly, [1, 8, 16], 2);
    expect(decide(2, { ...busy, deadlineAtMs: 560 })).toMatchObject({
      kind: "dispatch",
      reason: "deadline",
    });
    expect(decide(2, { ...busy, deadlineAtMs: 600 })).toMatchObject({ kind: "wait" });
  });
});
