// Channel pruning across layers: channels that Add, Concat, Split and grouped convolutions couple.
import { describe, expect, it } from "vitest";
import { findAttribute, makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { floatTensor, int64Tensor, node } from "../onnx/model-builders.ts";
import { constantsOf, dimsOf } from "./model-runs.ts";
import { filters, net, prune, REASONS } from "./pruning-nets.ts";

describe("coupled channels", () => {
  it("are removed together for Add, by the sum of their importance", async () => {
    const residual = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv c v -> d"),
        node("Add c d -> s"),
        node("Conv s u -> y"),
      ],
      constants: [
        filters("w", [1, 2, 3, 6], 2),
        filters("v", [9, 1, 1, 1], 4),
        floatTensor("u", [1, 2, 3, 4], [1, 4, 1, 1]),
      ],
    });
    const { after, groups } = await prune(residual);
    expect(groups).toEqual([
      { name: "make_c", layers: ["make_c", "make_d"], channels: 4, removed: 2 },
    ]);
    expect(dimsOf(after)).toEqual({ w: [2, 2, 1, 1], v: [2, 2, 1, 1], u: [1, 2, 1, 1] });
    expect(constantsOf(after)["u"]?.data).toEqual([1, 4]);
  });

  it("stay independent for Concat, with their own positions in the next layer's weights", async () => {
    const concatenated = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv x v -> d"),
        node("Concat c d -> j", [makeIntAttribute("axis", 1)]),
        node("Conv j u -> y"),
      ],
      constants: [
        filters("w", [2, 1], 2),
        filters("v", [5, 9, 7, 8], 2),
        floatTensor("u", [1, 2, 3, 4, 5, 6], [1, 6, 1, 1]),
      ],
    });
    const { after, groups } = await prune(concatenated);
    expect(groups).toMatchObject([
      { name: "make_c", removed: 1 },
      { name: "make_d", removed: 2 },
    ]);
    expect(constantsOf(after)["u"]).toEqual({ dims: [1, 3, 1, 1], data: [1, 4, 6] });
  });
});

describe("channel groups", () => {
  it("follow the producing layers if Add follows Concat", async () => {
    const concatThenAdd = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv x v -> d"),
        node("Concat c d -> j", [makeIntAttribute("axis", 1)]),
        node("Conv x t -> e"),
        node("Add j e -> s"),
        node("Conv s u -> y"),
      ],
      constants: [
        filters("w", [2, 1], 2),
        filters("v", [9, 5], 2),
        filters("t", [1, 1, 1, 1], 2),
        floatTensor("u", [1, 2, 3, 4], [1, 4, 1, 1]),
      ],
    });
    const { after, groups } = await prune(concatThenAdd);
    expect(groups).toMatchObject([
      { layers: ["make_c", "make_e"], removed: 1 },
      { layers: ["make_d", "make_e"], removed: 1 },
    ]);
    expect(constantsOf(after)["u"]?.data).toEqual([1, 3]);
  });
});

describe("channels of Split and of graph inputs", () => {
  it("form one group for each part of a Split, so that no part becomes empty", async () => {
    const splitNet = net({
      nodes: [
        node("Conv x w -> c"),
        node("Split c sizes -> a b", [makeIntAttribute("axis", 1)]),
        node("Conv a v -> d"),
        node("Conv b u -> e"),
        node("Add d e -> y"),
      ],
      constants: [
        filters("w", [1, 2, 8, 9], 2),
        int64Tensor("sizes", [2, 2]),
        floatTensor("v", [1, 2], [1, 2, 1, 1]),
        floatTensor("u", [3, 4], [1, 2, 1, 1]),
      ],
    });
    const { after, groups } = await prune(splitNet);
    expect(groups).toMatchObject([
      { name: "make_c", removed: 1 },
      { name: "make_c (2)", removed: 1 },
    ]);
    expect(constantsOf(after)).toMatchObject({
      w: { data: [2, 2, 9, 9] },
      v: { data: [2] },
      u: { data: [4] },
    });
    expect(constantsOf(after)[after.graph.node[1]?.input[1] ?? ""]?.data).toEqual([1, 1]);
  });

  it("are kept if they are coupled with a graph input", async () => {
    const coupledWithInput = net({
      nodes: [
        node("Conv x w -> c"),
        node("Add c x -> s"),
        node("Conv s v -> d"),
        node("Conv d u -> y"),
      ],
      constants: [filters("w", [1, 2], 2), filters("v", [1, 2], 2), filters("u", [1], 2)],
    });
    const { unprunable, groups } = await prune(coupledWithInput);
    expect(unprunable[0]).toEqual({
      layer: "make_c",
      op: "Conv",
      channels: 2,
      reason: REASONS.fixedValue("x"),
    });
    expect(groups.map(({ name }) => name)).toEqual(["make_d"]);
  });
});

describe("grouped convolutions", () => {
  it("that are depthwise lose the channels of their input", async () => {
    const depthwise = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv c v -> d", [makeIntAttribute("group", 4)]),
        node("Conv d u -> y"),
      ],
      constants: [
        filters("w", [1, 2, 3, 4], 2),
        filters("v", [9, 5, 1, 5], 1),
        floatTensor("u", [1, 2, 3, 4], [1, 4, 1, 1]),
      ],
    });
    const { after, groups } = await prune(depthwise);
    expect(groups).toEqual([
      { name: "make_c", layers: ["make_c", "make_d"], channels: 4, removed: 2 },
    ]);
    expect(constantsOf(after)["u"]?.data).toEqual([1, 4]);
    expect(findAttribute(after.graph.node[1] ?? node("A b -> c"), "group")?.i).toBe(2n);
    expect(dimsOf(after)["v"]).toEqual([2, 1, 1, 1]);
  });

  it("keep their number of groups and equal group sizes", async () => {
    const grouped = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv c v -> d", [makeIntAttribute("group", 2)]),
        node("Conv d u -> y"),
      ],
      constants: [
        filters("w", [9, 1, 2, 4], 2),
        filters("v", [1, 5, 6, 2], 2),
        floatTensor("u", [1, 2, 3, 4], [1, 4, 1, 1]),
      ],
    });
    const { after, groups } = await prune(grouped, { ratio: 0.5, multiple: 2 });
    expect(groups).toMatchObject([
      { channels: 4, removed: 2 },
      { channels: 4, removed: 2 },
    ]);
    // In the first layer, channels 0 and 2 have the largest sum. In the second, both pairs are
    // equal, and the first is removed.
    expect(constantsOf(after)["w"]?.data).toEqual([9, 9, 2, 2]);
    expect(dimsOf(after)).toEqual({ w: [2, 2, 1, 1], v: [2, 1, 1, 1], u: [1, 2, 1, 1] });
    expect(findAttribute(after.graph.node[1] ?? node("A b -> c"), "group")?.i).toBe(2n);
  });
});
