import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { startPhaseTimer } from "../../src/telemetry/phase-timer.ts";

describe("the phase timer", () => {
  it("sums phases, including failed ones, and omits phases of 0 ms", async () => {
    const clock = new ManualClock(500);
    const phases = startPhaseTimer(clock, 490);
    await phases.measure("region", async () => clock.advance(7));
    await phases.measure("edge", async () => {});
    const failure = new Error("failed work");
    const failingPhase = phases.measure("region", async () => {
      clock.advance(5);
      throw failure;
    });
    await expect(failingPhase).rejects.toBe(failure);
    expect(phases.serverTiming()).toBe("region;dur=12, total;dur=22");
  });

  it("is empty if no time has passed", () => {
    expect(startPhaseTimer(new ManualClock(), 0).serverTiming()).toBe("");
  });
});
