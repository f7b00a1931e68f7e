import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TierPrediction } from "../../src/cascade/calibration.ts";
import { checkMaxTier, runCascade, type CascadeTier } from "../../src/cascade/cascade.ts";
import { type Deadline, startDeadline } from "../../src/cascade/deadline.ts";
import { ManualClock } from "../../src/core/clock.ts";
// Cascade: escalation, failures, deadlines, saturation and maxTier. One file, because all tests share the scripted tiers.
import { regionErrors } from "../../src/region/errors.ts";
import { taskErrors } from "../../src/tasks/errors.ts";
import type { TaskInput } from "../../src/tasks/task.ts";

const textInputs = (...texts: string[]): TaskInput[] =>
  texts.map((text) => ({ kind: "text", text }));
const textOf = (input: TaskInput) => (input.kind === "text" ? input.text : "");
const createDeadline = (isStrict = false): Deadline =>
  startDeadline(new ManualClock(), { budgetMs: 100, isStrict });

/** A tier whose confidence in an input is the number in its text, times `skill`. */
function tier(
  id: string,
  exitAt: number | null,
  skill = 1,
): CascadeTier & { receivedTexts: string[] } {
  const receivedTexts: string[] = [];
  return {
    id,
    receivedTexts,
    exit: exitAt === null ? null : { confidence: exitAt },
    async predict(inputs) {
      receivedTexts.push(...inputs.map(textOf));
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
  it("escalates only uncertain inputs, and keeps their order", async () => {
    const [first, second] = [tier("edge", 0.8), tier("region", null)];
    const { outcomes, tierUsage } = await runCascade(
      [first, second],
      textInputs("0.9", "0.2", "0.8", "0.1"),
      createDeadline(),
    );
    expect(outcomes.map(({ label }) => label)).toEqual([
      "edge:0.9",
      "region:0.2",
      "edge:0.8",
      "region:0.1",
    ]);
    expect(second.receivedTexts).toEqual(["0.2", "0.1"]);
    expect(tierUsage).toEqual([
      { tier: "edge", inputs: 4 },
      { tier: "region", inputs: 2 },
    ]);
  });

  it("always escalates an out-of-scope verdict", async () => {
    const { outcomes } = await runCascade(
      [tier("edge", 0.5), tier("region", null)],
      textInputs("0.99 oos"),
      createDeadline(),
    );
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });

  it("returns the best answer as degraded if the next tier fails", async () => {
    const { outcomes, tierUsage } = await runCascade(
      [tier("edge", 0.8), failing("region")],
      textInputs("0.9", "0.2"),
      createDeadline(),
    );
    expect(outcomes[0]).toMatchObject({ label: "edge:0.9", degraded: false });
    expect(outcomes[1]).toMatchObject({
      label: "edge:0.2",
      degraded: true,
      degradedBy: "region_unavailable",
    });
    expect(tierUsage[1]).toEqual({ tier: "region", inputs: 1, error: "region_unavailable" });
  });

  it("calls the next tier if the first fails, without degradation", async () => {
    const { outcomes } = await runCascade(
      [failing("edge"), tier("region", null)],
      textInputs("0.2"),
      createDeadline(),
    );
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });
});

describe("runCascade with a failing tier", () => {
  it("throws for an input that every tier would reject", async () => {
    const broken: CascadeTier = {
      ...failing("edge"),
      predict: async () => Promise.reject(taskErrors.invalidImage(0, "its data is damaged")),
    };
    const second = tier("region", null);
    await expect(
      runCascade([broken, second], textInputs("1"), createDeadline()),
    ).rejects.toMatchObject({
      code: "invalid_image",
    });
    expect(second.receivedTexts).toEqual([]);
  });

  it("throws if no tier answers", async () => {
    await expect(
      runCascade([failing("edge"), failing("region")], textInputs("1"), createDeadline()),
    ).rejects.toMatchObject({ code: "region_unavailable" });
  });
});

describe("runCascade at the deadline", () => {
  it.each([true, false])(
    "calls only the first tier if the deadline has passed (strict: %s)",
    async (isStrict) => {
      const late = startDeadline(new ManualClock(1_000), {
        budgetMs: 100,
        isStrict,
        arrivedAtMs: 0,
      });
      const region = tier("region", null);
      const { outcomes } = await runCascade(
        [tier("edge", 0.8), region],
        textInputs("0.9", "0.2"),
        late,
      );
      expect(outcomes).toMatchObject([
        { tier: "edge", degraded: false },
        { tier: "edge", degraded: true, degradedBy: "deadline_exceeded" },
      ]);
      expect(region.receivedTexts).toEqual([]);
    },
  );

  it("does not escalate once the deadline has passed", async () => {
    const clock = new ManualClock();
    const late = startDeadline(clock, { budgetMs: 100, isStrict: true });
    const slow: CascadeTier = {
      ...tier("edge", 0.8),
      async predict(inputs, deadline) {
        clock.advance(101);
        return await tier("edge", 0.8).predict(inputs, deadline);
      },
    };
    const region = tier("region", null);
    const { outcomes } = await runCascade([slow, region], textInputs("0.2"), late);
    expect(outcomes[0]).toMatchObject({ degraded: true, degradedBy: "deadline_exceeded" });
    expect(region.receivedTexts).toEqual([]);
  });

  it("skips a tier whose p95 latency exceeds the remaining deadline", async () => {
    const region = { ...tier("region", null), estimateP95Ms: () => 101 };
    const { outcomes, tierUsage } = await runCascade(
      [tier("edge", 0.8), region],
      textInputs("0.9", "0.2"),
      createDeadline(),
    );
    expect(outcomes).toMatchObject([
      { tier: "edge", degraded: false },
      { tier: "edge", degraded: true, degradedBy: "deadline_too_near" },
    ]);
    expect(region.receivedTexts).toEqual([]);
    expect(tierUsage).toEqual([
      { tier: "edge", inputs: 2 },
      { tier: "region", inputs: 0, error: "deadline_too_near" },
    ]);
  });
});

describe("runCascade with a slow tier", () => {
  it("calls a tier whose p95 latency equals the remaining deadline", async () => {
    const region = { ...tier("region", null), estimateP95Ms: (inputs: number) => 50 * inputs };
    const { outcomes } = await runCascade(
      [tier("edge", 0.8), region],
      textInputs("0.1", "0.2"),
      createDeadline(),
    );
    expect(outcomes).toMatchObject([{ tier: "region" }, { tier: "region" }]);
  });

  it("calls the tier after a slow one, without degradation", async () => {
    const slow = { ...tier("middle", 0.9), estimateP95Ms: () => 1_000 };
    const { outcomes } = await runCascade(
      [tier("edge", 0.8), slow, tier("region", null)],
      textInputs("0.2"),
      createDeadline(),
    );
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });

  it("calls a slow tier if there is no answer yet", async () => {
    const slow = { ...tier("region", null), estimateP95Ms: () => 1_000 };
    const { outcomes } = await runCascade(
      [failing("edge"), slow],
      textInputs("0.2"),
      createDeadline(true),
    );
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });
});

describe("runCascade with a disconnect or saturation", () => {
  it("stops when the client disconnects", async () => {
    const client = new AbortController();
    const deadline = startDeadline(new ManualClock(), {
      budgetMs: 100,
      isStrict: false,
      disconnectSignal: client.signal,
    });
    const first: CascadeTier = {
      ...tier("edge", 0.8),
      async predict(inputs, deadline) {
        client.abort();
        return await tier("edge", 0.8).predict(inputs, deadline);
      },
    };
    const region = tier("region", null);
    await expect(runCascade([first, region], textInputs("0.2"), deadline)).rejects.toMatchObject({
      code: "request_cancelled",
      status: 499,
    });
    expect(region.receivedTexts).toEqual([]);
  });

  it("accepts less confident answers while the next tier is saturated, as degraded", async () => {
    const first = {
      ...tier("edge", null),
      exit: { confidence: 0.8, whenSaturated: { confidence: 0.6 } },
    };
    const region = { ...tier("region", null), isSaturated: () => true };
    const { outcomes } = await runCascade(
      [first, region],
      textInputs("0.9", "0.6", "0.5", "0.7 oos"),
      createDeadline(),
    );
    expect(outcomes).toMatchObject([
      { tier: "edge", degraded: false },
      { tier: "edge", degraded: true, degradedBy: "tier_saturated" },
      { tier: "region", degraded: false },
      { tier: "region", degraded: false },
    ]);
  });

  it("keeps its thresholds while a tier is saturated if the rule has no lower one", async () => {
    const region = { ...tier("region", null), isSaturated: () => true };
    const { outcomes } = await runCascade(
      [tier("edge", 0.8), region],
      textInputs("0.79"),
      createDeadline(),
    );
    expect(outcomes[0]).toMatchObject({ tier: "region", degraded: false });
  });
});

describe("runCascade with all tiers", () => {
  it("accepts the answer of maxTier as final", async () => {
    const region = tier("region", null);
    const { outcomes } = await runCascade(
      [tier("edge", 0.8), region],
      textInputs("0.2"),
      createDeadline(),
      "edge",
    );
    expect(outcomes[0]).toMatchObject({ tier: "edge", degraded: false });
    expect(region.receivedTexts).toEqual([]);
    expect(() => checkMaxTier("m", [region], "edge")).toThrow(
      expect.objectContaining({ code: "no_such_tier" }),
    );
  });

  it("answers every input by the first confident tier (property)", async () => {
    const confidenceText = fc.double({ min: 0, max: 1, noNaN: true }).map(String);
    await fc.assert(
      fc.asyncProperty(
        fc.array(confidenceText, { minLength: 1, maxLength: 20 }),
        async (confidences) => {
          const tiers = [tier("t1", 0.9), tier("t2", 0.7, 1.2), tier("t3", null)];
          const { outcomes, tierUsage } = await runCascade(
            tiers,
            textInputs(...confidences),
            createDeadline(),
          );
          outcomes.forEach((outcome, index) => {
            const confidence = Number(confidences[index]);
            expect(outcome.tier).toBe(
              confidence >= 0.9 ? "t1" : Math.min(1, confidence * 1.2) >= 0.7 ? "t2" : "t3",
            );
          });
          expect(tierUsage[0]?.inputs).toBe(confidences.length);
        },
      ),
    );
  });
});
