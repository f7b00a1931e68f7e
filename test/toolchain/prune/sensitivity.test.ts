// Sensitivities and the plan made of them, with a judge whose mind is known; and on a net, with a real one.
import { describe, expect, it } from "vitest";
import { parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { createFidelityScorer } from "../../../src/toolchain/prune/fidelity-scorer.ts";
import { planRatios } from "../../../src/toolchain/prune/plan-ratios.ts";
import type { PruningRatios } from "../../../src/toolchain/prune/ratios.ts";
import {
  createChannelTarget,
  createMagnitudeTarget,
  measureSensitivity,
  type PruningTarget,
} from "../../../src/toolchain/prune/sensitivity.ts";
import { createAlexNet } from "../../bench/lib/alexnet.ts";
import { createInputs, runtime, measureModelShapes } from "./model-runs.ts";

/** Parts of 100 each; the "graph" is its ratios. What a part loses: `mind` times the ratio. */
function createFakeTarget(minds: Readonly<Record<string, number>>) {
  const byName = (ratios: PruningRatios) =>
    typeof ratios === "number" ? new Map(Object.keys(minds).map((part) => [part, ratios])) : ratios;
  const subject: PruningTarget = {
    parts: Object.keys(minds),
    prune: (ratios) => new TextEncoder().encode(JSON.stringify([...byName(ratios)])),
    computeCost: (ratios) =>
      Object.keys(minds).reduce(
        (sum, part) => sum + 100 * (1 - (byName(ratios).get(part) ?? 0)),
        0,
      ),
  };
  const asked: string[] = [];
  const judge = async (graph: Uint8Array) => {
    const text = new TextDecoder().decode(graph);
    asked.push(text);
    const ratios = new Map<string, number>(JSON.parse(text));
    return 1 - [...ratios].reduce((sum, [part, ratio]) => sum + (minds[part] ?? 0) * ratio, 0);
  };
  return { subject, judge, asked };
}

describe("measureSensitivity", () => {
  it("prunes one part at a time by each ratio, and tells how it goes", async () => {
    const { subject, judge, asked } = createFakeTarget({ a: 0.1, b: 0.4 });
    const progress: string[] = [];
    const { score, parts } = await measureSensitivity(subject, judge, {
      ratios: [0.5, 0.25],
      onProgress: (done, of) => progress.push(`${done}/${of}`),
    });
    expect(asked).toEqual([
      '[["a",0],["b",0]]',
      '[["a",0.25]]',
      '[["a",0.5]]',
      '[["b",0.25]]',
      '[["b",0.5]]',
    ]);
    expect([score, progress]).toEqual([1, ["1/4", "2/4", "3/4", "4/4"]]);
    expect(parts[1]).toEqual({
      part: "b",
      points: [
        { ratio: 0.25, cost: 175, score: 0.9, loss: expect.closeTo(0.1) },
        { ratio: 0.5, cost: 150, score: 0.8, loss: expect.closeTo(0.2) },
      ],
    });
  });

  it("judges what comes to the same only once", async () => {
    const { subject, judge, asked } = createFakeTarget({ a: 1 });
    const coarse: PruningTarget = {
      ...subject,
      computeCost: (ratios) => Math.ceil(subject.computeCost(ratios) / 50) * 50,
    };
    const { parts } = await measureSensitivity(coarse, judge, { ratios: [0.1, 0.5, 0.6, 0.7] });
    expect(parts[0]?.points.map(({ cost, loss }) => [cost, loss])).toEqual([
      [100, 0],
      [50, 0.5],
      [50, 0.5],
      [50, 0.5],
    ]);
    expect(asked).toHaveLength(2);
  });
});

describe("planRatios", () => {
  it("prunes first what minds least, as far as it has to", async () => {
    const { subject, judge } = createFakeTarget({ a: 0.1, b: 0.4, c: 0.2 });
    const sensitivity = await measureSensitivity(subject, judge, { ratios: [0.25, 0.5] });
    expect(planRatios(subject, sensitivity, 300)).toEqual({
      ratios: new Map(),
      cost: 300,
      expectedLoss: 0,
    });
    expect(planRatios(subject, sensitivity, 240)).toEqual({
      ratios: new Map([
        ["a", 0.5],
        ["c", 0.25],
      ]),
      cost: 225,
      expectedLoss: expect.closeTo(0.1),
    });
    expect(planRatios(subject, sensitivity, 150).ratios).toEqual(
      new Map([
        ["a", 0.5],
        ["b", 0.5],
        ["c", 0.5],
      ]),
    );
  });

  it("is not led by a part that chance made better", async () => {
    const { subject, judge } = createFakeTarget({ a: -0.5, b: 0 });
    const sensitivity = await measureSensitivity(subject, judge, { ratios: [0.5] });
    expect(planRatios(subject, sensitivity, 150)).toMatchObject({
      expectedLoss: 0,
      ratios: new Map([["a", 0.5]]),
    });
  });

  it("refuses a budget that the measured ratios do not reach", async () => {
    const { subject, judge } = createFakeTarget({ a: 1 });
    const sensitivity = await measureSensitivity(subject, judge, { ratios: [0.5] });
    expect(() => planRatios(subject, sensitivity, 40)).toThrow(
      expect.objectContaining({ code: "pruning_budget", facts: { budget: 40, least: 50 } }),
    );
  });
});

describe("of a small AlexNet", () => {
  const bytes = createAlexNet({ seed: 1, width: 0.25, hidden: 64, resolution: 64, classes: 10 });

  it("channels: half the MACs by the plan, and closer to the original than pruned alike", async () => {
    const original = parseModel(bytes);
    const subject = createChannelTarget(bytes, await measureModelShapes(original), "macs");
    expect(subject.parts).toEqual([
      "Conv_0",
      "Conv_3",
      "Conv_6",
      "Conv_8",
      "Conv_10",
      "Gemm_14",
      "Gemm_16",
    ]);
    const judge = await createFidelityScorer(
      runtime,
      bytes,
      (await createInputs(original)).slice(0, 1),
    );
    const sensitivity = await measureSensitivity(subject, judge, { ratios: [0.25, 0.5] });
    const plan = planRatios(subject, sensitivity, 0.5 * subject.computeCost(0));
    expect([sensitivity.score, plan.cost / subject.computeCost(0) <= 0.5]).toEqual([1, true]);
    const alike =
      [0.2, 0.25, 0.3, 0.35, 0.4].find(
        (ratio) => subject.computeCost(ratio) <= 0.5 * subject.computeCost(0),
      ) ?? 0.5;
    expect(await judge(subject.prune(plan.ratios))).toBeGreaterThan(
      await judge(subject.prune(alike)),
    );
  });

  it("weights: as many bytes, of which fewer count", async () => {
    const subject = createMagnitudeTarget(bytes);
    expect(subject.computeCost(0.5) / subject.computeCost(0)).toBeCloseTo(0.5, 3);
    const judge = await createFidelityScorer(
      runtime,
      bytes,
      (await createInputs(parseModel(bytes))).slice(0, 1),
    );
    expect(await judge(subject.prune(0))).toBe(1);
    expect(await judge(subject.prune(0.3))).toBeGreaterThan(await judge(subject.prune(0.7)));
    expect(subject.prune(0.3).byteLength).toBe(serializeModel(parseModel(bytes)).byteLength);
  });
});
