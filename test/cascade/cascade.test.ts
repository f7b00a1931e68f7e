import { regionErrors } from "../../src/region/errors.ts";
import { taskErrors } from "../../src/tasks/errors.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TierPrediction } from "../../src/cascade/calibration.ts";
import { checkMaxTier, runCascade, type CascadeTier } from "../../src/cascade/cascade.ts";
import { type Deadline, startDeadline } from "../../src/cascade/deadline.ts";
import { ManualClock } from "../../src/core/clock.ts";
import type { TaskInput } from "../../src/tasks/task.ts";

const texts = (...all: string[]): TaskInput[] => all.map((text) => ({ kind: "text", text }));
const textOf = (input: TaskInput) => (input.kind === "text" ? input.text : "");
const deadline = (strict = false): Deadline =>
  startDeadline(new ManualClock(), { budgetMs: 100, isStrict: strict });

/** A tier that is as sure of an input as the number in its text says, times `skill`. */
function tier(id: string, exitAt: number | null, skill = 1): CascadeTier & { asked: string[] } {
  const asked: string[] = [];
  return {
    id,
    asked,
    exit: exitAt === null ? null : { confidence: exitAt },
    async predict(inputs) {
      asked.push(...inputs.map(textOf));
      return inputs.map(textOf).map((text): TierPrediction => {
        const confidence = Math.min(1, Number.parseFloat(text) * skill);
        return {
          label: `${id}:${text}`,
          confidence,
          outOfScope: text.endsWith("oos"),
          ranking: [],
        };
      });
    },
  };
}

const failing = (id: string): CascadeTier => ({
  id,
  exit: null,
  predict: async () => Promise.reject(regionErrors.regionUnavailable("gone")),
});

describe("runCascade", () => {
  it("sends on only what a tier is not sure of, and keeps the order", async () => {
    const [first, second] = [tier("edge", 0.8), tier("region", null)];
    const { outcomes, tierUsage: uses } = await runCascade(
      [first, second],
      texts("0.9", "0.2", "0.8", "0.1"),
      deadline(),
    );
    expect(outcomes.map((one) => one.label)).toEqual([
      "edge:0.9",
      "region:0.2",
      "edge:0.8",
      "region:0.1",
    ]);
    expect(second.asked).toEqual(["0.2", "0.1"]);
    expect(uses).toEqual([
      { tier: "edge", inputs: 4 },
      { tier: "region", inputs: 2 },
    ]);
  });

  it("always escalates an out-of-scope verdict", async () => {
    const { outcomes } = await runCascade(
      [tier("edge", 0.5), tier("region", null)],
      texts("0.99 oos"),
      deadline(),
    );
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });

  it("gives the best answer so far, marked, when the next tier fails", async () => {
    const { outcomes, tierUsage: uses } = await runCascade(
      [tier("edge", 0.8), failing("region")],
      texts("0.9", "0.2"),
      deadline(),
    );
    expect(outcomes[0]).toMatchObject({ label: "edge:0.9", degraded: false });
    expect(outcomes[1]).toMatchObject({
      label: "edge:0.2",
      degraded: true,
      degradedBy: "region_unavailable",
    });
    expect(uses[1]).toEqual({ tier: "region", inputs: 1, error: "region_unavailable" });
  });

  it("goes on to the next tier when the first fails, and the answer is then a full one", async () => {
    const { outcomes } = await runCascade(
      [failing("edge"), tier("region", null)],
      texts("0.2"),
      deadline(),
    );
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });

  it("ends with an input that no tier could answer", async () => {
    const broken: CascadeTier = {
      ...failing("edge"),
      predict: async () => Promise.reject(taskErrors.invalidImage(0, "its data is damaged")),
    };
    const second = tier("region", null);
    await expect(runCascade([broken, second], texts("1"), deadline())).rejects.toMatchObject({
      code: "invalid_image",
    });
    expect(second.asked).toEqual([]);
  });

  it("throws when no tier gives any answer", async () => {
    await expect(
      runCascade([failing("edge"), failing("region")], texts("1"), deadline()),
    ).rejects.toMatchObject({ code: "region_unavailable" });
  });

  it.each([true, false])(
    "asks the first tier though the deadline passed before it, and no other (strict: %s)",
    async (strict) => {
      const late = startDeadline(new ManualClock(1_000), {
        budgetMs: 100,
        isStrict: strict,
        arrivedAtMs: 0,
      });
      const region = tier("region", null);
      const { outcomes } = await runCascade([tier("edge", 0.8), region], texts("0.9", "0.2"), late);
      expect(outcomes.map(({ tier: by, degradedBy }) => [by, degradedBy])).toEqual([
        ["edge", undefined],
        ["edge", "deadline_exceeded"],
      ]);
      expect(region.asked).toEqual([]);
    },
  );

  it("does not escalate once the deadline has passed", async () => {
    const clock = new ManualClock();
    const late = startDeadline(clock, { budgetMs: 100, isStrict: true });
    const slow: CascadeTier = {
      ...tier("edge", 0.8),
      async predict(inputs, given) {
        clock.advance(101);
        return await tier("edge", 0.8).predict(inputs, given);
      },
    };
    const region = tier("region", null);
    const { outcomes } = await runCascade([slow, region], texts("0.2"), late);
    expect(outcomes[0]).toMatchObject({ degraded: true, degradedBy: "deadline_exceeded" });
    expect(region.asked).toEqual([]);
  });

  it("leaves out a tier that would not answer in what is left, and says so", async () => {
    const region = { ...tier("region", null), estimateP95Ms: () => 101 };
    const { outcomes, tierUsage: uses } = await runCascade(
      [tier("edge", 0.8), region],
      texts("0.9", "0.2"),
      deadline(),
    );
    expect(
      outcomes.map(({ tier: by, degraded, degradedBy }) => [by, degraded, degradedBy]),
    ).toEqual([
      ["edge", false, undefined],
      ["edge", true, "deadline_too_near"],
    ]);
    expect(region.asked).toEqual([]);
    expect(uses).toEqual([
      { tier: "edge", inputs: 2 },
      { tier: "region", inputs: 0, error: "deadline_too_near" },
    ]);
  });

  it("asks a tier that has just the time for all of its inputs", async () => {
    const region = { ...tier("region", null), estimateP95Ms: (inputs: number) => 50 * inputs };
    const { outcomes } = await runCascade(
      [tier("edge", 0.8), region],
      texts("0.1", "0.2"),
      deadline(),
    );
    expect(outcomes.map(({ tier: by }) => by)).toEqual(["region", "region"]);
  });

  it("goes past a tier that is too slow to one that is not, whose answer is a full one", async () => {
    const slow = { ...tier("middle", 0.9), estimateP95Ms: () => 1_000 };
    const { outcomes } = await runCascade(
      [tier("edge", 0.8), slow, tier("region", null)],
      texts("0.2"),
      deadline(),
    );
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });

  it("asks a tier however slow where there is no answer yet", async () => {
    const slow = { ...tier("region", null), estimateP95Ms: () => 1_000 };
    const { outcomes } = await runCascade([failing("edge"), slow], texts("0.2"), deadline(true));
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });

  it("computes nothing for a client that has left", async () => {
    const client = new AbortController();
    const given = startDeadline(new ManualClock(), {
      budgetMs: 100,
      isStrict: false,
      disconnectSignal: client.signal,
    });
    const first: CascadeTier = {
      ...tier("edge", 0.8),
      async predict(inputs, until) {
        client.abort();
        return await tier("edge", 0.8).predict(inputs, until);
      },
    };
    const region = tier("region", null);
    await expect(runCascade([first, region], texts("0.2"), given)).rejects.toMatchObject({
      code: "request_cancelled",
      status: 499,
    });
    expect(region.asked).toEqual([]);
  });

  it("takes less sure answers while the next tier is saturated, within its rule, and marks them", async () => {
    const first = {
      ...tier("edge", null),
      exit: { confidence: 0.8, whenSaturated: { confidence: 0.6 } },
    };
    const region = { ...tier("region", null), isSaturated: () => true };
    const { outcomes } = await runCascade(
      [first, region],
      texts("0.9", "0.6", "0.5", "0.7 oos"),
      deadline(),
    );
    expect(outcomes.map(({ tier: by, degradedBy }) => [by, degradedBy])).toEqual([
      ["edge", undefined],
      ["edge", "tier_saturated"],
      ["region", undefined],
      ["region", undefined],
    ]);
  });

  it("keeps its thresholds while a tier is saturated where the model states no risk for that", async () => {
    const region = { ...tier("region", null), isSaturated: () => true };
    const { outcomes } = await runCascade([tier("edge", 0.8), region], texts("0.79"), deadline());
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });

  it("takes the answer of maxTier as final", async () => {
    const region = tier("region", null);
    const { outcomes } = await runCascade(
      [tier("edge", 0.8), region],
      texts("0.2"),
      deadline(),
      "edge",
    );
    expect(outcomes[0]).toMatchObject({ tier: "edge", degraded: false });
    expect(region.asked).toEqual([]);
    expect(() => checkMaxTier("m", [region], "edge")).toThrow("has no tier");
  });

  it("answers every input once, by the first tier that is sure of it (property)", async () => {
    const confidence = fc.double({ min: 0, max: 1, noNaN: true }).map(String);
    await fc.assert(
      fc.asyncProperty(fc.array(confidence, { minLength: 1, maxLength: 20 }), async (all) => {
        const tiers = [tier("t1", 0.9), tier("t2", 0.7, 1.2), tier("t3", null)];
        const { outcomes, tierUsage: uses } = await runCascade(tiers, texts(...all), deadline());
        outcomes.forEach((outcome, index) => {
          const sure = Number(all[index]);
          expect(outcome.tier).toBe(
            sure >= 0.9 ? "t1" : Math.min(1, sure * 1.2) >= 0.7 ? "t2" : "t3",
          );
        });
        expect(uses[0]?.inputs).toBe(all.length);
      }),
    );
  });
});
