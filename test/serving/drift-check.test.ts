// What the suite in workerd (test/edge/drift-check.test.ts) cannot make happen: checks whose request the platform has ended.
import { describe, expect, it, vi } from "vitest";
import type { CascadeTier } from "../../src/cascade/cascade.ts";
import { ManualClock } from "../../src/core/clock.ts";
import { createDriftCheck } from "../../src/serving/drift-check.ts";
import { createRequestContext } from "../support/request-context.ts";
import { startTelemetryUnderTest } from "../support/telemetry.ts";

const answer = { label: "a", confidence: 0.9, outOfScope: false, ranking: [] };
const answers = [
  {
    input: { kind: "text", text: "x" } as const,
    outcome: { ...answer, tier: "edge", degraded: false },
  },
];

/** Timers that never fire, as of a request that is over. */
class FrozenTimers extends ManualClock {
  override setTimer(): () => void {
    return () => {};
  }
}

describe("createDriftCheck", () => {
  it("has room again when a check has outlived its deadline without a word", async () => {
    const clock = new FrozenTimers(0);
    const { metrics, readCountedLabels: counted } = startTelemetryUnderTest(clock);
    let isStuck = true;
    const run = vi.fn<CascadeTier["predict"]>(async () =>
      isStuck ? await new Promise<never>(() => {}) : [answer],
    );
    const drift = createDriftCheck({ sampleRate: 1, maxConcurrent: 1, clock, metrics });
    const background: Promise<unknown>[] = [];
    const consider = () =>
      drift.sampleRequest(
        {
          model: "m",
          version: 1,
          deadlineMs: 100,
          tiers: [
            { id: "edge", exit: { confidence: 0.5 }, predict: run },
            { id: "top", exit: null, predict: run },
          ],
          answers,
        },
        { ...createRequestContext(clock), waitUntil: (work) => void background.push(work) },
      );
    consider();
    await vi.waitFor(() => expect(run).toHaveBeenCalledTimes(1));
    isStuck = false;
    consider();
    await background[1];
    expect(run).toHaveBeenCalledTimes(1);
    clock.advance(1_101);
    consider();
    await background[2];
    expect(run).toHaveBeenCalledTimes(2);
    expect(counted("edgetier_drift_checks_total")).toEqual([
      { model: "m", version: "1", tier: "edge", result: "agrees" },
    ]);
  });
});
