// Drift check after the platform has ended its request, which the suite in workerd (test/edge/drift-check.test.ts) cannot provoke.
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

/** Timers that never fire, as in a request that has ended. */
class FrozenTimers extends ManualClock {
  override setTimer(): () => void {
    return () => {};
  }
}

describe("createDriftCheck", () => {
  it("frees the slot of a check that the platform ended silently", async () => {
    const clock = new FrozenTimers(0);
    const { metrics, readCountedLabels } = startTelemetryUnderTest(clock);
    let isStuck = true;
    const run = vi.fn<CascadeTier["predict"]>(async () =>
      isStuck ? await new Promise<never>(() => {}) : [answer],
    );
    const driftCheck = createDriftCheck({ sampleRate: 1, maxConcurrent: 1, clock, metrics });
    const background: Promise<unknown>[] = [];
    const sample = () =>
      driftCheck.sampleRequest(
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
    sample();
    await vi.waitFor(() => expect(run).toHaveBeenCalledTimes(1));
    isStuck = false;
    sample();
    await background[1];
    expect(run).toHaveBeenCalledTimes(1);
    clock.advance(1_101);
    sample();
    await background[2];
    expect(run).toHaveBeenCalledTimes(2);
    expect(readCountedLabels("edgetier_drift_checks_total")).toEqual([
      { model: "m", version: "1", tier: "edge", result: "agrees" },
    ]);
  });
});
