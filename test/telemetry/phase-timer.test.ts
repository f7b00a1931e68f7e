import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { startPhaseTimer } from "../../src/telemetry/phase-timer.ts";

describe("the phase timer", () => {
  it("adds up phases, also of work that fails, and leaves out what the clock did not see", async () => {
    const clock = new ManualClock(500);
    const phases = startPhaseTimer(clock, 490);
    await phases.measure("region", async () => clock.advance(7));
    await phases.measure("edge", async () => {});
    const failing = phases.measure("region", async () => {
      clock.advance(5);
      throw new Error("gone");
    });
    await expect(failing).rejects.toThrow("gone");
    expect(phases.serverTiming()).toBe("region;dur=12, total;dur=22");
  });

  it("says nothing when no time has passed", () => {
    expect(startPhaseTimer(new ManualClock(), 0).serverTiming()).toBe("");
  });
});
