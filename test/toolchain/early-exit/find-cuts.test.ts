// Cut points: dominating values of graphs, and the work before each.
import { describe, expect, it } from "vitest";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { findDominatingValues } from "../../../src/toolchain/early-exit/dominating-values.ts";
import { findCuts, selectProposals } from "../../../src/toolchain/early-exit/find-cuts.ts";
import { floatTensor, model, node } from "../onnx/model-builders.ts";
import { flatModel, maskedModel, mirroredViewsModel, residualModel } from "./splittable-models.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });
const pixels = (rows: number): NamedTensors => ({
  x: { datatype: "FP32", shape: [rows, 3, 8, 8], data: new Float32Array(rows * 192) },
});
const ids = (rows: number, length: number): NamedTensors => {
  const tensor = {
    datatype: "INT64",
    shape: [rows, length],
    data: new BigInt64Array(rows * length).fill(1n),
  } as const;
  return { ids: tensor, attention_mask: tensor };
};

describe("findDominatingValues", () => {
  it("finds the values around a residual block, and none within it", () => {
    expect(findDominatingValues(residualModel())).toEqual([
      "c0",
      "stem",
      "sum",
      "block",
      "pool",
      "c3",
      "last",
      "mean",
      "flat",
    ]);
  });

  it("ignores values that follow from an input without parameters, such as a mask", () => {
    expect(findDominatingValues(maskedModel())).toEqual([
      "embedded",
      "m1",
      "layer1",
      "m2",
      "layer2",
      "mean",
      "row",
    ]);
  });

  it("ignores values that no output needs", () => {
    const net = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [floatTensor("w", [1, 2, 3, 4], [2, 2])],
      nodes: [
        node("MatMul x w -> a"),
        node("MatMul x w -> unused"),
        node("Relu a -> b"),
        node("MatMul b w -> y"),
      ],
    });
    expect(findDominatingValues(net)).toEqual(["a", "b"]);
  });

  it("finds no value if two paths lead to the output", () => {
    const net = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [floatTensor("w", [1, 2, 3, 4], [2, 2])],
      nodes: [node("MatMul x w -> a"), node("MatMul x w -> b"), node("Add a b -> y")],
    });
    expect(findDominatingValues(net)).toEqual([]);
  });
});

describe("findCuts", () => {
  it("returns share of work, shape, and bytes per row", async () => {
    const cuts = await findCuts(runtime, residualModel(), {
      singleRow: pixels(1),
      multipleRows: pixels(3),
    });
    const macs = [6 * 27 * 64, 2 * 6 * 54 * 64, 8 * 54 * 16, 8 * 4];
    const total = macs.reduce((sum, layerMacs) => sum + layerMacs, 0);
    const stem = cuts.find(({ value }) => value === "stem");
    expect(stem).toEqual({
      value: "stem",
      share: expect.closeTo((macs[0] ?? 0) / total, 10),
      shape: [-1, 6, 8, 8],
      views: 1,
      besides: [],
      bytesPerRow: 384,
    });
    expect(cuts.find(({ value }) => value === "pool")).toMatchObject({
      share: expect.closeTo(((macs[0] ?? 0) + (macs[1] ?? 0)) / total, 10),
      bytesPerRow: 96,
    });
  });

  it("proposes the smallest of the values with equal work before them, and of equal values the last", async () => {
    const cuts = await findCuts(runtime, residualModel(), {
      singleRow: pixels(1),
      multipleRows: pixels(3),
    });
    expect(selectProposals(cuts).map(({ value }) => value)).toEqual(["stem", "pool", "flat"]);
  });
});

describe("findCuts with variable dimensions", () => {
  it("joins the views of an image in one row if they are adjacent", async () => {
    const inputs = {
      singleRow: pixels(1),
      multipleRows: {
        x: {
          datatype: "FP32",
          shape: [3, 3, 8, 8],
          data: Float32Array.from({ length: 576 }, (_, index) => Math.sin(index)),
        },
      },
    } as const;
    const cuts = await findCuts(runtime, mirroredViewsModel("adjacent"), inputs);
    expect(cuts.find(({ value }) => value === "stem")).toMatchObject({
      shape: [-1, 12, 8, 8],
      views: 2,
      bytesPerRow: 768,
    });
    expect(cuts.find(({ value }) => value === "flat")).toMatchObject({
      shape: [-1, 16],
      views: 2,
      bytesPerRow: 16,
    });
    expect(await findCuts(runtime, mirroredViewsModel("blocked"), inputs)).toEqual([]);
  });

  it("does not mistake tokens for views, even if all probe texts have one length", async () => {
    const inputs = (rows: number): NamedTensors => ({
      ids: { datatype: "INT64", shape: [rows, 3], data: new BigInt64Array(rows * 3).fill(1n) },
    });
    const cuts = await findCuts(runtime, flatModel(), {
      singleRow: inputs(1),
      multipleRows: inputs(2),
    });
    expect(cuts.map(({ value }) => value)).toEqual(["apart", "mean", "row"]);
  });

  it("counts further inputs, and marks dimensions that vary between requests", async () => {
    const cuts = await findCuts(runtime, maskedModel(), {
      singleRow: ids(1, 3),
      multipleRows: ids(4, 5),
    });
    expect(cuts.find(({ value }) => value === "layer1")).toMatchObject({
      shape: [-1, -1, 4],
      besides: ["attention_mask"],
      bytesPerRow: 12 + 24,
    });
    expect(cuts.find(({ value }) => value === "row")).toMatchObject({
      shape: [-1, 4],
      besides: [],
      bytesPerRow: 4,
    });
    // No work precedes the embedding.
    expect(cuts.map(({ value }) => value)).not.toContain("embedded");
  });
});
