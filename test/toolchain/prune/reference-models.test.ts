// Channel pruning of two models of common architectures.
import { describe, expect, it } from "vitest";
import { dequantize } from "../../../src/toolchain/fp16/dequantize.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { computeLayerCosts, sumLayerCosts } from "../../../src/toolchain/prune/graph-cost.ts";
import { pruneChannels } from "../../../src/toolchain/prune/prune-channels.ts";
import { createAlexNet } from "../../bench/lib/alexnet.ts";
import { makeSmallMobileNet } from "../../support/reference-models.ts";
import { cloneModel, measureDifference, measureModelShapes } from "./model-runs.ts";
import { REASONS } from "./pruning-nets.ts";

async function halveChannels(original: Model) {
  const after = cloneModel(original);
  const shapes = await measureModelShapes(original);
  const report = pruneChannels(after, shapes, { ratio: 0.5 });
  const [fullCost, remainingCost] = [
    sumLayerCosts(computeLayerCosts(original, shapes)),
    sumLayerCosts(computeLayerCosts(after, report.shapes)),
  ];
  return {
    after,
    ...report,
    macs: remainingCost.macs / fullCost.macs,
    parameters: remainingCost.parameters / fullCost.parameters,
    original,
  };
}

describe("a MobileNet", () => {
  const mobileNet = (): Model => {
    const model = parseModel(makeSmallMobileNet());
    dequantize(model);
    return model;
  };

  it("loses pointwise and depthwise channels together, and more than two thirds of the MACs for half of the channels", async () => {
    const { after, groups, unprunable, macs, parameters, original } =
      await halveChannels(mobileNet());
    expect(groups).toHaveLength(14);
    for (const { layers } of groups.slice(0, -1)) expect(layers).toHaveLength(2);
    expect(unprunable).toMatchObject([{ channels: 10, reason: REASONS.graphOutput("logits") }]);
    const largeGroups = groups.filter(({ channels }) => channels > 8);
    for (const { channels, removed } of largeGroups) expect((channels - removed) % 8).toBe(0);
    expect({ macs, parameters }).toEqual({
      macs: expect.closeTo(0.31, 1),
      parameters: expect.closeTo(0.28, 1),
    });
    expect(await measureDifference(original, after)).toBeLessThan(Number.POSITIVE_INFINITY);
  });

  it("is pruned to the same bytes each time", async () => {
    expect(
      Buffer.from(serializeModel((await halveChannels(mobileNet())).after)).equals(
        serializeModel((await halveChannels(mobileNet())).after),
      ),
    ).toBe(true);
  });

  it("is rejected in INT8", async () => {
    await expect(halveChannels(parseModel(makeSmallMobileNet()))).rejects.toMatchObject({
      code: "nothing_to_prune",
    });
  });
});

it("an AlexNet loses channels before Flatten and units of dense layers", async () => {
  const { after, groups, macs, original } = await halveChannels(
    parseModel(createAlexNet({ seed: 1, width: 0.25, hidden: 64, resolution: 64, classes: 10 })),
  );
  expect(groups.map(({ channels }) => channels)).toEqual([16, 48, 96, 64, 64, 64, 64]);
  for (const { channels, removed } of groups) expect(removed).toBe(channels / 2);
  expect(macs).toBeCloseTo(0.34, 2);
  expect(await measureDifference(original, after)).toBeLessThan(Number.POSITIVE_INFINITY);
});
