// Pruning by channel of two models of usual shapes.
import { describe, expect, it } from "vitest";
import { dequantize } from "../../../src/toolchain/fp16/dequantize.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { pruneChannels } from "../../../src/toolchain/prune/prune-channels.ts";
import { computeLayerCosts, sumLayerCosts } from "../../../src/toolchain/prune/graph-cost.ts";
import { createAlexNet } from "../../bench/lib/alexnet.ts";
import { makeSmallMobileNet } from "../../support/reference-models.ts";
import { cloneModel, measureDifference, measureModelShapes } from "./model-runs.ts";

async function halved(original: Model) {
  const after = cloneModel(original);
  const shapes = await measureModelShapes(original);
  const report = pruneChannels(after, shapes, { ratio: 0.5 });
  const [full, left] = [
    sumLayerCosts(computeLayerCosts(original, shapes)),
    sumLayerCosts(computeLayerCosts(after, report.shapes)),
  ];
  return {
    after,
    ...report,
    macs: left.macs / full.macs,
    parameters: left.parameters / full.parameters,
    original,
  };
}

describe("a MobileNet", () => {
  const mobileNet = (): Model => {
    const model = parseModel(makeSmallMobileNet());
    dequantize(model);
    return model;
  };

  it("loses channels of pointwise and depthwise convolutions together, and about three quarters of the MACs for half of the channels", async () => {
    const {
      after,
      groups,
      unprunable: leftAlone,
      macs,
      parameters,
      original,
    } = await halved(mobileNet());
    expect(groups).toHaveLength(14);
    expect(groups.slice(0, -1).every(({ layers }) => layers.length === 2)).toBe(true);
    expect(leftAlone).toEqual([
      expect.objectContaining({ channels: 10, reason: "they are in the graph's output logits" }),
    ]);
    expect(
      groups.every(({ channels, removed }) => channels <= 8 || (channels - removed) % 8 === 0),
    ).toBe(true);
    expect([macs, parameters]).toEqual([expect.closeTo(0.31, 1), expect.closeTo(0.28, 1)]);
    expect(await measureDifference(original, after)).toBeLessThan(Number.POSITIVE_INFINITY);
  });

  it("is the same file twice", async () => {
    expect(
      Buffer.from(serializeModel((await halved(mobileNet())).after)).equals(
        serializeModel((await halved(mobileNet())).after),
      ),
    ).toBe(true);
  });

  it("in INT8 is refused, with what is in the way", async () => {
    await expect(halved(parseModel(makeSmallMobileNet()))).rejects.toMatchObject({
      code: "nothing_to_prune",
      remedy: expect.stringContaining("before it is quantised"),
    });
  });
});

it("an AlexNet loses channels in front of Flatten, and units of dense layers", async () => {
  const { after, groups, macs, original } = await halved(
    parseModel(createAlexNet({ seed: 1, width: 0.25, hidden: 64, resolution: 64, classes: 10 })),
  );
  expect(groups.map(({ channels, removed }) => [channels, removed])).toEqual([
    [16, 8],
    [48, 24],
    [96, 48],
    [64, 32],
    [64, 32],
    [64, 32],
    [64, 32],
  ]);
  expect(macs).toBeCloseTo(0.34, 2);
  expect(await measureDifference(original, after)).toBeLessThan(Number.POSITIVE_INFINITY);
});
