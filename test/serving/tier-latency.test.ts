import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { createTierLatency } from "../../src/serving/tier-latency.ts";

function setUp(seedMs?: number) {
  const clock = new ManualClock();
  const latency = createTierLatency(clock, seedMs);
  const takes = async (ms: number, fails = false, cutOff = new AbortController()) => {
    const run = async () => {
      clock.advance(ms);
      if (fails) throw new Error("failed");
    };
    await latency.timed(run, cutOff.signal).catch(() => {});
  };
  /** A run that its deadline cuts off. */
  const isCutOffAfter = async (ms: number) => {
    const deadline = new AbortController();
    deadline.abort();
    await takes(ms, true, deadline);
  };
  const times = async (count: number, run: () => Promise<void>) => {
    for (let index = 0; index < count; index++) await run();
  };
  return { clock, latency, takes, isCutOffAfter, times };
}

describe("createTierLatency", () => {
  it("says what the manifest says until it has seen enough", async () => {
    const { latency, takes, times } = setUp(30);
    await times(19, () => takes(100));
    expect(latency.p95Ms()).toBe(30);
    await takes(100);
    expect(latency.p95Ms()).toBeCloseTo(100, -1);
  });

  it("knows nothing without either, and again when nothing has come for long", async () => {
    const { clock, latency, takes, times } = setUp();
    expect(latency.p95Ms()).toBeUndefined();
    await times(20, () => takes(10));
    expect(latency.p95Ms()).toBeCloseTo(10, 0);
    clock.advance(120_000);
    expect(latency.p95Ms()).toBeUndefined();
  });

  it("learns from runs that are cut off only that they take longer", async () => {
    const { latency, takes, isCutOffAfter, times } = setUp();
    await times(20, () => takes(100));
    await times(20, () => isCutOffAfter(5));
    expect(latency.p95Ms()).toBeCloseTo(100, -1);
    await times(20, () => isCutOffAfter(300));
    expect(latency.p95Ms()).toBeGreaterThan(280);
  });

  it("counts no run that failed by itself", async () => {
    const { latency, takes, times } = setUp();
    await times(20, () => takes(1, true));
    expect(latency.p95Ms()).toBeUndefined();
  });
});
