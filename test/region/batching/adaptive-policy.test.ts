// The adaptive policy: what it has learned decides how much runs, and whether waiting for more is worth it.
import { describe, expect, it } from "vitest";
import { createAdaptivePolicy } from "../../../src/region/server/batching/adaptive-policy.ts";
import type { BatchView } from "../../../src/region/server/batching/delay-policy.ts";
import { createExecutionTimes } from "../../../src/region/server/batching/execution-times.ts";
import { createScene, settled } from "./held-session.ts";

const upTo = (rows: number) => Array.from({ length: rows }, (_, index) => index + 1);

/** A policy that knows `runMs` for the sizes, and has seen a row every `gapMs` for half a second. */
function learned(runMs: (rows: number) => number, sizes: readonly number[], gapMs: number) {
  const policy = createAdaptivePolicy();
  for (const rows of sizes) for (let run = 0; run < 30; run++) policy.ran?.(rows, runMs(rows));
  for (let atMs = 0; atMs < 500; atMs += gapMs) policy.arrived?.(1, atMs);
  const decide = (rows: number, view: Partial<BatchView> = {}) =>
    policy.decide({ nowMs: 500, rowsOfFirst: upTo(rows), limit: undefined, oldestAtMs: 500, dueAtMs: Infinity, ...view });
  return { policy, decide };
}

describe("execution times", () => {
  it("are averages by size, interpolated between sizes", () => {
    const times = createExecutionTimes();
    expect(times.estimate(4)).toBeUndefined();
    times.learn(4, 10);
    expect([1, 4, 9].map(times.estimate)).toEqual([2.5, 10, 10]);
    times.learn(8, 14);
    expect([2, 6, 8, 16].map(times.estimate)).toEqual([5, 12, 14, 22]);
    times.learn(2, 8);
    for (let run = 0; run < 100; run++) times.learn(8, 20);
    expect(times.estimate(3)).toBe(9);
    expect(times.estimate(8)).toBeCloseTo(20);
  });

  it("larger sizes are never thought to be quicker", () => {
    const times = createExecutionTimes();
    times.learn(1, 10);
    times.learn(2, 6);
    expect(times.estimate(10)).toBe(6);
  });
});

describe("how much runs", () => {
  it("everything while nothing is known", () => {
    const policy = createAdaptivePolicy();
    expect(policy.decide({ nowMs: 0, rowsOfFirst: upTo(5), limit: undefined, oldestAtMs: 0, dueAtMs: Infinity })).toEqual({ kind: "run", works: 5, reason: "idle" });
  });

  it("everything where a run costs much by itself", () => {
    const { decide } = learned((rows) => 40 + rows, [1, 8, 16], 5);
    expect(decide(16, { limit: "full" })).toEqual({ kind: "run", works: 16, reason: "full" });
  });

  it("one by one where a batch takes as long as its rows, now and then everything to see whether that is still so", () => {
    const { decide } = learned((rows) => 5 * rows, [1, 8, 16], 5);
    const reasons = Array.from({ length: 64 }, () => decide(16)).map((decision) => decision.kind === "run" && `${decision.reason} ${decision.works}`);
    expect(reasons.filter((one) => one === "throughput 1")).toHaveLength(63);
    expect(reasons.filter((one) => one === "explore 16")).toHaveLength(1);
  });

  it("only as much as still runs well together", () => {
    const { decide } = learned((rows) => (rows <= 8 ? 8 + rows : 4 * rows), [1, 4, 8, 16], 5);
    expect(decide(16)).toEqual({ kind: "run", works: 8, reason: "throughput" });
  });
});

describe("whether to wait", () => {
  const costly = (rows: number) => 20 + rows;

  it("not while the session keeps up with what comes", () => {
    expect(learned(costly, [1, 8], 25).decide(1)).toEqual({ kind: "run", works: 1, reason: "idle" });
  });

  it("for the next row, where more come than one by one can be answered", () => {
    const decision = learned(costly, [1, 8], 2).decide(1);
    expect(decision).toEqual({ kind: "wait", untilMs: expect.closeTo(502, 0) });
  });

  it("not where the next row would add little", () => {
    expect(learned(costly, [1, 8], 2).decide(9)).toMatchObject({ kind: "run", works: 9, reason: "idle" });
  });

  it("not where somebody could come late by it", () => {
    const { decide } = learned(costly, [1, 8], 2);
    expect(decide(1, { dueAtMs: 530 })).toMatchObject({ kind: "run", reason: "deadline" });
    expect(decide(1, { dueAtMs: 600 })).toMatchObject({ kind: "wait" });
  });

  it("no longer than the next row was expected to take", () => {
    const { decide } = learned(costly, [1, 8], 2);
    const wait = decide(1);
    const untilMs = wait.kind === "wait" ? wait.untilMs : Number.NaN;
    expect(decide(1, { nowMs: 501 })).toEqual({ kind: "wait", untilMs });
    expect(decide(1, { nowMs: untilMs })).toEqual({ kind: "run", works: 1, reason: "delay" });
  });
});

/** One row every `gapMs`, through an executor whose runs take 20 ms and one more for each row. */
async function simulate(gapMs: number, arrivals: number) {
  const { send, clock, runs, dispatches, answers } = createScene({ policy: createAdaptivePolicy, maxBatchRows: 64 });
  let endsAtMs = Infinity;
  for (let atMs = 0; Object.keys(answers).length < arrivals; atMs++, clock.advance(1)) {
    const before = runs.length;
    if (atMs >= endsAtMs) {
      endsAtMs = Infinity;
      runs.at(-1)?.end();
    }
    if (atMs % gapMs === 0 && atMs / gapMs < arrivals) send([atMs / gapMs + 1]);
    await settled();
    if (runs.length > before) endsAtMs = atMs + 20 + (runs.at(-1)?.rows.length ?? 0);
  }
  return { answers, dispatches };
}

describe("in an executor", () => {
  it("under light load nobody waits", async () => {
    const { dispatches } = await simulate(30, 50);
    expect(new Set(dispatches.map(({ rows, waitedMs }) => `${rows} after ${waitedMs} ms`))).toEqual(new Set(["1 after 0 ms"]));
  });

  it("under more than single runs could answer, batches are as large as it takes", async () => {
    const { answers, dispatches } = await simulate(7, 200);
    expect(Object.values(answers).flat()).toEqual(upTo(200));
    const late = dispatches.slice(-20, -2);
    expect(late.every(({ rows }) => rows >= 3 && rows <= 4)).toBe(true);
    expect(Math.max(...late.map(({ waitedMs }) => waitedMs))).toBeLessThanOrEqual(24);
  });
});
