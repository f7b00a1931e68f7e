// Pruning sensitivities and the plans made from them, with a fake scorer of known sensitivity and
// on a real network.
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

/**
 * Creates a target whose parts cost 100 each. A part's loss is its sensitivity times the ratio, and
 * the "graph" is the ratios.
 */
function createFakeTarget(sensitivities: Readonly<Record<string, number>>) {
  const byName = (ratios: PruningRatios) =>
    typeof ratios === "number"
      ? new Map(Object.keys(sensitivities).map((part) => [part, ratios]))
      : ratios;
  const target: PruningTarget = {
    parts: Object.keys(sensitivities),
    prune: (ratios) => new TextEncoder().encode(JSON.stringify([...byName(ratios)])),
    computeCost: (ratios) =>
      Object.keys(sensitivities).reduce(
        (sum, part) => sum + 100 * (1 - (byName(ratios).get(part) ?? 0)),
        0,
      ),
  };
  const scored: string[] = [];
  const scoreModel = async (graph: Uint8Array) => {
    const text = new TextDecoder().decode(graph);
    scored.push(text);
    const ratios = new Map<string, number>(JSON.parse(text));
    return (
      1 - [...ratios].reduce((sum, [part, ratio]) => sum + (sensitivities[part] ?? 0) * ratio, 0)
    );
  };
  return { target, scoreModel, scored };
}

describe("measureSensitivity", () => {
  it("prunes one part at a time by each ratio, and reports its progress", async () => {
    const { target, scoreModel, scored } = createFakeTarget({ a: 0.1, b: 0.4 });
    const progress: string[] = [];
    const { score, parts } = await measureSensitivity(target, scoreModel, {
      ratios: [0.5, 0.25],
      onProgress: (done, total) => progress.push(`${done}/${total}`),
    });
    expect(scored).toEqual([
      '[["a",0],["b",0]]',
      '[["a",0.25]]',
      '[["a",0.5]]',
      '[["b",0.25]]',
      '[["b",0.5]]',
    ]);
    expect(score).toBe(1);
    expect(progress).toEqual(["1/4", "2/4", "3/4", "4/4"]);
    expect(parts[1]).toEqual({
      part: "b",
      points: [
        { ratio: 0.25, cost: 175, score: 0.9, loss: expect.closeTo(0.1) },
        { ratio: 0.5, cost: 150, score: 0.8, loss: expect.closeTo(0.2) },
      ],
    });
  });

  it("scores ratios with the same cost only once", async () => {
    const { target, scoreModel, scored } = createFakeTarget({ a: 1 });
    const coarse: PruningTarget = {
      ...target,
      computeCost: (ratios) => Math.ceil(target.computeCost(ratios) / 50) * 50,
    };
    const { parts } = await measureSensitivity(coarse, scoreModel, {
      ratios: [0.1, 0.5, 0.6, 0.7],
    });
    expect(parts[0]?.points).toMatchObject([
      { cost: 100, loss: 0 },
      { cost: 50, loss: 0.5 },
      { cost: 50, loss: 0.5 },
      { cost: 50, loss: 0.5 },
    ]);
    expect(scored).toHaveLength(2);
  });
});

describe("planRatios", () => {
  it("prunes the least sensitive parts first, until the budget holds", async () => {
    const { target, scoreModel } = createFakeTarget({ a: 0.1, b: 0.4, c: 0.2 });
    const sensitivity = await measureSensitivity(target, scoreModel, { ratios: [0.25, 0.5] });
    expect(planRatios(target, sensitivity, 300)).toEqual({
      ratios: new Map(),
      cost: 300,
      expectedLoss: 0,
    });
    expect(planRatios(target, sensitivity, 240)).toEqual({
      ratios: new Map([
        ["a", 0.5],
        ["c", 0.25],
      ]),
      cost: 225,
      expectedLoss: expect.closeTo(0.1),
    });
    expect(planRatios(target, sensitivity, 150).ratios).toEqual(
      new Map([
        ["a", 0.5],
        ["b", 0.5],
        ["c", 0.5],
      ]),
    );
  });

  it("does not count improvements by chance as a gain", async () => {
    const { target, scoreModel } = createFakeTarget({ a: -0.5, b: 0 });
    const sensitivity = await measureSensitivity(target, scoreModel, { ratios: [0.5] });
    expect(planRatios(target, sensitivity, 150)).toMatchObject({
      expectedLoss: 0,
      ratios: new Map([["a", 0.5]]),
    });
  });

  it("rejects a budget that the measured ratios cannot meet", async () => {
    const { target, scoreModel } = createFakeTarget({ a: 1 });
    const sensitivity = await measureSensitivity(target, scoreModel, { ratios: [0.5] });
    expect(() => planRatios(target, sensitivity, 40)).toThrow(
      expect.objectContaining({ code: "pruning_budget", facts: { budget: 40, least: 50 } }),
    );
  });
});

describe("a small AlexNet", () => {
  const bytes = createAlexNet({ seed: 1, width: 0.25, hidden: 64, resolution: 64, classes: 10 });

  it("stays closer to the original with planned ratios than with one ratio for all channels", async () => {
    const original = parseModel(bytes);
    const target = createChannelTarget(bytes, await measureModelShapes(original), "macs");
    expect(target.parts).toEqual([
      "Conv_0",
      "Conv_3",
      "Conv_6",
      "Conv_8",
      "Conv_10",
      "Gemm_14",
      "Gemm_16",
    ]);
    const scoreModel = await createFidelityScorer(
      runtime,
      bytes,
      (await createInputs(original)).slice(0, 1),
    );
    const sensitivity = await measureSensitivity(target, scoreModel, { ratios: [0.25, 0.5] });
    const plan = planRatios(target, sensitivity, 0.5 * target.computeCost(0));
    expect(sensitivity.score).toBe(1);
    expect(plan.cost / target.computeCost(0)).toBeLessThanOrEqual(0.5);
    const uniformRatio =
      [0.2, 0.25, 0.3, 0.35, 0.4].find(
        (ratio) => target.computeCost(ratio) <= 0.5 * target.computeCost(0),
      ) ?? 0.5;
    expect(await scoreModel(target.prune(plan.ratios))).toBeGreaterThan(
      await scoreModel(target.prune(uniformRatio)),
    );
  });

  it("keeps its size with sparse weights, whose cost counts nonzero bytes", async () => {
    const target = createMagnitudeTarget(bytes);
    expect(target.computeCost(0.5) / target.computeCost(0)).toBeCloseTo(0.5, 3);
    const scoreModel = await createFidelityScorer(
      runtime,
      bytes,
      (await createInputs(parseModel(bytes))).slice(0, 1),
    );
    expect(await scoreModel(target.prune(0))).toBe(1);
    expect(await scoreModel(target.prune(0.3))).toBeGreaterThan(
      await scoreModel(target.prune(0.7)),
    );
    expect(target.prune(0.3).byteLength).toBe(serializeModel(parseModel(bytes)).byteLength);
  });
});
