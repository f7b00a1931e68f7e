// The adaptive policy: learned run times decide the batch size, and whether the batch waits for more requests.
import { describe, expect, it } from "vitest";
import { createAdaptivePolicy } from "../../../src/region/server/batching/adaptive-policy.ts";
import type { BatchCandidate } from "../../../src/region/server/batching/dispatch-policy.ts";
import { createExecutionTimeEstimator } from "../../../src/region/server/batching/execution-time-estimator.ts";

const rowCountsUpTo = (rows: number) => Array.from({ length: rows }, (_, index) => index + 1);

/** Creates a policy that has learned `runMs` for the sizes, and half a second of arrivals every `gapMs`. */
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

describe("execution time estimates", () => {
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

  it("average runs of similar sizes as one size", () => {
    const times = createExecutionTimeEstimator();
    times.record(1, 3);
    for (const rows of [18, 20, 22]) times.record(rows, 2 + rows);
    expect(times.estimateMs(20)).toBeCloseTo(22);
    expect(times.estimateMs(40)).toBeCloseTo(42);
  });

  it("narrow their optimistic bound with every run", () => {
    const times = createExecutionTimeEstimator();
    times.record(4, 10);
    expect(times.optimisticEstimateMs(4)).toBeCloseTo(7);
    for (let run = 1; run < 100; run++) times.record(4, 10);
    expect(times.optimisticEstimateMs(4)).toBeCloseTo(9.7);
  });

  it("are never shorter for larger sizes", () => {
    const times = createExecutionTimeEstimator();
    times.record(1, 10);
    times.record(2, 6);
    expect(times.estimateMs(10)).toBe(6);
  });
});

describe("the size of a batch", () => {
  it("is everything before the first measurement", () => {
    expect(createTrainedPolicy(() => 0, [], 5)(5)).toEqual({
      kind: "dispatch",
      requestCount: 5,
      reason: "idle",
    });
  });

  it("is everything if the fixed costs of a run are high", () => {
    const decide = createTrainedPolicy((rows) => 40 + rows, [1, 8, 16], 5);
    expect(decide(16, { limitReason: "full" })).toEqual({
      kind: "dispatch",
      requestCount: 16,
      reason: "full",
    });
  });

  it("is one if a batch takes as long as its rows, with an occasional larger batch to verify that", () => {
    const decide = createTrainedPolicy((rows) => 5 * rows, [1, 8, 16], 5);
    const reasons = Array.from({ length: 64 }, () => decide(16)).map(
      (decision) => decision.kind === "dispatch" && `${decision.reason} ${decision.requestCount}`,
    );
    expect(reasons.filter((reason) => reason === "throughput 1")).toHaveLength(63);
    expect(reasons.filter((reason) => reason === "explore 2")).toHaveLength(1);
  });

  it("ends where larger batches become inefficient", () => {
    const decide = createTrainedPolicy(
      (rows) => (rows <= 8 ? 8 + rows : 4 * rows),
      [1, 4, 8, 16],
      5,
    );
    expect(decide(16)).toEqual({ kind: "dispatch", requestCount: 8, reason: "throughput" });
  });

  it("is everything until enough runs have shown that this is worse", () => {
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

describe("the decision to wait", () => {
  const costly = (rows: number) => 20 + rows;
  const busy = { runsInFlight: 1, instanceCount: 2 };

  it("is no for a session with one instance", () => {
    expect(createTrainedPolicy(costly, [1, 8, 16], 2)(1)).toEqual({
      kind: "dispatch",
      requestCount: 1,
      reason: "idle",
    });
  });

  it("is no while all instances are free", () => {
    expect(
      createTrainedPolicy(costly, [1, 8, 16], 2)(1, { runsInFlight: 0, instanceCount: 2 }),
    ).toEqual({
      kind: "dispatch",
      requestCount: 1,
      reason: "idle",
    });
  });

  it("is no while the current batch size easily keeps up with the arrivals", () => {
    expect(createTrainedPolicy(costly, [1, 8, 16], 25)(1, busy)).toEqual({
      kind: "dispatch",
      requestCount: 1,
      reason: "idle",
    });
  });

  it("is yes while another instance runs, for a time in proportion to the fixed costs", () => {
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

  it("is no if sharing a run saves nothing", () => {
    expect(createTrainedPolicy((rows) => 5 * rows, [1, 2, 4], 2)(1, busy)).toMatchObject({
      kind: "dispatch",
      requestCount: 1,
    });
  });

  it("is no if a request could miss its deadline", () => {
    const decide = createTrainedPolicy(costly, [1, 8, 16], 2);
    expect(decide(2, { ...busy, deadlineAtMs: 560 })).toMatchObject({
      kind: "dispatch",
      reason: "deadline",
    });
    expect(decide(2, { ...busy, deadlineAtMs: 600 })).toMatchObject({ kind: "wait" });
  });
});
