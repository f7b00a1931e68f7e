// Channel pruning of chains: the selection of channels, and the constants and shapes that follow
// from it.
import { describe, expect, it } from "vitest";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { floatTensor, node } from "../onnx/model-builders.ts";
import { constantsOf, dimsOf } from "./model-runs.ts";
import { filters, net, prune, REASONS } from "./pruning-nets.ts";

describe("pruneChannels on a chain of layers", () => {
  const chain = (): Model =>
    net({
      nodes: [node("Conv x w b -> c"), node("Relu c -> r"), node("Conv r v -> y")],
      constants: [
        filters("w", [3, -1, 0.5, -4], 2),
        floatTensor("b", [1, 2, 3, 4]),
        floatTensor("v", [1, 2, 3, 4, 5, 6, 7, 8], [2, 4, 1, 1]),
      ],
      valueInfo: ["c: float [N, 4, 4, 4]", "r: float [N, 4, H, 4]"],
    });

  it("removes the channels of least L1 norm, with their biases and the next layer's weights", async () => {
    const { after, groups, unprunable } = await prune(chain());
    expect(constantsOf(after)).toEqual({
      w: { dims: [2, 2, 1, 1], data: [3, 3, -4, -4] },
      b: { dims: [2], data: [1, 4] },
      v: { dims: [2, 2, 1, 1], data: [1, 4, 5, 8] },
    });
    expect(groups).toEqual([{ name: "make_c", layers: ["make_c"], channels: 4, removed: 2 }]);
    expect(unprunable).toEqual([
      { layer: "make_y", op: "Conv", channels: 2, reason: REASONS.graphOutput("y") },
    ]);
  });

  it("updates the declared shapes", async () => {
    const { after, shapes } = await prune(chain());
    const declared = after.graph.valueInfo.map(({ type }) =>
      type?.value.case === "tensorType"
        ? type.value.value.shape?.dim.map(({ value }) => String(value.value))
        : [],
    );
    expect(declared).toEqual([
      ["N", "2", "4", "4"],
      ["N", "2", "H", "4"],
    ]);
    expect(Object.fromEntries(shapes)).toMatchObject({ c: [1, 2, 4, 4], y: [1, 2, 4, 4] });
  });
});

describe("the selection of channels", () => {
  it("is deterministic and removes the first of equal channels", async () => {
    const equal = (): Model =>
      net({
        nodes: [node("Conv x w -> c"), node("Conv c v -> y")],
        constants: [filters("w", [1, -1, 1, 1], 2), floatTensor("v", [1, 2, 3, 4], [1, 4, 1, 1])],
      });
    expect(constantsOf((await prune(equal())).after)["v"]?.data).toEqual([3, 4]);
    expect(constantsOf((await prune(equal())).after)).toEqual(
      constantsOf((await prune(equal())).after),
    );
  });

  it.each([
    { channels: 32, ratio: 0.3, remaining: 24 },
    { channels: 32, ratio: 0.5, remaining: 16 },
    { channels: 20, ratio: 0.5, remaining: 16 },
    { channels: 20, ratio: 0.1, remaining: 20 },
    { channels: 8, ratio: 0.9, remaining: 8 },
  ])(
    "leaves $remaining of $channels channels for the ratio $ratio and the multiple 8",
    async ({ channels, ratio, remaining }) => {
      const values = Array.from({ length: channels }, (_, channel) => channel + 1);
      const wide = net({
        nodes: [node("Conv x w -> c"), node("Conv c v -> y")],
        constants: [filters("w", values, 2), filters("v", [1], channels)],
      });
      expect(dimsOf((await prune(wide, { ratio, multiple: 8 })).after)).toEqual({
        w: [remaining, 2, 1, 1],
        v: [1, remaining, 1, 1],
      });
    },
  );
});

describe("the ranking of channels", () => {
  it("follows BatchNormalization's scale with `gamma`, L1 with `l1` and L2 with `l2`", async () => {
    const normalized = (): Model =>
      net({
        nodes: [
          node("Conv x w -> c"),
          node("BatchNormalization c scale shift mean variance -> n"),
          node("Conv n v -> h"),
          node("Conv h u -> y"),
        ],
        constants: [
          floatTensor("w", [1, 1, 1.7, 0], [2, 2, 1, 1]),
          floatTensor("scale", [-3, 2]),
          floatTensor("shift", [5, 6]),
          floatTensor("mean", [7, 8]),
          floatTensor("variance", [9, 10]),
          filters("v", [1, 2], 2),
          filters("u", [1], 2),
        ],
      });
    const byGamma = await prune(normalized(), { ratio: 0.5, importance: "gamma" });
    expect(constantsOf(byGamma.after)).toMatchObject({
      w: { data: [1, 1] },
      scale: { data: [-3] },
      shift: { data: [5] },
      mean: { data: [7] },
      variance: { data: [9] },
      v: { dims: [2, 1, 1, 1] },
    });
    expect(byGamma.unprunable[0]).toEqual({
      layer: "make_h",
      op: "Conv",
      channels: 2,
      reason: REASONS.noBatchNormalization,
    });
    const byL2 = await prune(normalized(), { ratio: 0.5, importance: "l2" });
    expect(constantsOf(byL2.after)["scale"]?.data).toEqual([2]);
    const byL1 = await prune(normalized(), { ratio: 0.5, importance: "l1" });
    expect(constantsOf(byL1.after)["scale"]?.data).toEqual([-3]);
  });

  it("has one threshold for all layers with the scope `model`", async () => {
    const twoLayers = net({
      nodes: [node("Conv x w -> c"), node("Conv c v -> d"), node("Conv d u -> y")],
      constants: [
        filters("w", [1, 1, 1, 1], 2),
        filters("v", [0.1, 9, 0.2, 0.3], 4),
        filters("u", [1], 4),
      ],
    });
    const { groups } = await prune(twoLayers, { ratio: 0.375, scope: "model" });
    expect(groups).toMatchObject([{ removed: 0 }, { removed: 3 }]);
    const byName = await prune(twoLayers, { ratio: new Map([["make_c", 0.25]]) });
    expect(byName.groups).toMatchObject([{ removed: 1 }, { removed: 0 }]);
  });
});

it.each([
  [{ ratio: 1 }, /ratio is 1\b/],
  [{ ratio: -0.1 }, /ratio is -0\.1\b/],
  [{ ratio: Number.NaN }, /ratio is NaN\b/],
  [{ ratio: 1, scope: "model" as const }, /ratio is 1\b/],
  [{ ratio: new Map([["nobody", 0.5]]) }, /"nobody"/],
  [{ ratio: 0.5, multiple: 0 }, /multiple is 0\b/],
])("pruneChannels rejects the options %j and names the value", async (options, value) => {
  const chain = net({
    nodes: [node("Conv x w -> c"), node("Conv c v -> y")],
    constants: [filters("w", [1, 2], 2), filters("v", [1], 2)],
  });
  await expect(prune(chain, options)).rejects.toMatchObject({
    code: "invalid_pruning",
    detail: expect.stringMatching(value),
  });
});
