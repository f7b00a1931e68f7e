// Unstructured pruning on small graphs, whose results can be worked out by hand.
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import {
  pruneByMagnitude,
  computeNonZeroBytes,
  type SparsifiedLayer,
} from "../../../src/toolchain/prune/prune-magnitude.ts";
import { createAlexNet } from "../../bench/lib/alexnet.ts";
import { floatTensor, int64Tensor, model, node } from "../onnx/model-builders.ts";
import { constantsOf } from "./model-runs.ts";

const twoLayerModel = (): Model =>
  model({
    inputs: ["x: float [N, 2]"],
    outputs: ["y: float [N, 2]"],
    nodes: [node("MatMul x w -> h"), node("Gemm h v b -> y")],
    constants: [
      floatTensor("w", [1, -2, 3, -4, 0, 6, -7, 8], [2, 4]),
      floatTensor("v", [0.1, -0.2, 0.3, 0.4, -0.5, 0.6, 0.7, 0.8], [4, 2]),
      floatTensor("b", [0.01, 0.02]),
    ],
  });
const readWeights = (pruned: Model) => ({
  w: constantsOf(pruned)["w"]?.data,
  v: constantsOf(pruned)["v"]?.data.map((value) => Number(value.toFixed(1))),
  b: constantsOf(pruned)["b"]?.data.map((value) => Number(value.toFixed(2))),
});

const countZeros = (layers: readonly SparsifiedLayer[]) =>
  Object.fromEntries(layers.map(({ layer, zerosAfter }) => [layer, zerosAfter]));

describe("pruneByMagnitude", () => {
  it("sets the smallest weights of each layer to 0, and no biases", () => {
    const pruned = twoLayerModel();
    expect(pruneByMagnitude(pruned, { ratio: 0.5 })).toEqual([
      { layer: "make_h", op: "MatMul", weights: 8, zerosBefore: 1, zerosAfter: 4 },
      { layer: "make_y", op: "Gemm", weights: 8, zerosBefore: 0, zerosAfter: 4 },
    ]);
    expect(readWeights(pruned)).toEqual({
      w: [0, 0, 0, -4, 0, 6, -7, 8],
      v: [0, 0, 0, 0, -0.5, 0.6, 0.7, 0.8],
      b: [0.01, 0.02],
    });
  });

  it("accepts ratios by layer", () => {
    const pruned = twoLayerModel();
    const layers = pruneByMagnitude(pruned, { ratio: new Map([["make_y", 0.25]]) });
    expect(countZeros(layers)).toEqual({ make_h: 1, make_y: 2 });
    expect(computeNonZeroBytes(pruned, new Map([["make_y", 0.25]]))).toBe(4 * (8 + 6));
  });

  it("shrinks a compressed file with 80 % zeros to less than half", () => {
    const original = createAlexNet({
      seed: 1,
      width: 0.125,
      hidden: 64,
      resolution: 64,
      classes: 10,
    });
    const pruned = parseModel(original);
    const layers = pruneByMagnitude(pruned, { ratio: 0.8 });
    for (const { weights, zerosAfter } of layers)
      expect(Math.abs(zerosAfter / weights - 0.8)).toBeLessThan(0.01);
    const compressedSize = (bytes: Uint8Array) => gzipSync(bytes).byteLength;
    expect(serializeModel(pruned).byteLength).toBe(original.byteLength);
    expect(compressedSize(serializeModel(pruned)) / compressedSize(original)).toBeLessThan(0.5);
  });
});

describe("pruneByMagnitude with the scope `model`", () => {
  it("applies one threshold to the LAMP scores of all layers", () => {
    const uneven = model({
      inputs: ["x: float [N, 1]"],
      outputs: ["y: float [N, 1]"],
      nodes: [node("MatMul x w -> h"), node("MatMul h v -> y")],
      constants: [
        floatTensor("w", [0.02, 0.01, -0.03, 0.04], [1, 4]),
        floatTensor("v", [1, 40, 2, -3], [4, 1]),
      ],
    });
    // The LAMP scores are 4/29, 1/30, 9/25 and 1 in w, and 1/1614, 1, 4/1613 and 9/1609 in v.
    expect(countZeros(pruneByMagnitude(uneven, { scope: "model", ratio: 0.5 }))).toEqual({
      make_h: 1,
      make_y: 3,
    });
    expect(constantsOf(uneven)["v"]?.data).toEqual([0, 40, 0, 0]);
    expect(constantsOf(uneven)["w"]?.data[1]).toBe(0);
  });

  it("reaches the total ratio without emptying a layer of a real network", () => {
    const real = parseModel(
      createAlexNet({ seed: 1, width: 0.125, hidden: 64, resolution: 64, classes: 10 }),
    );
    const layers = pruneByMagnitude(real, { scope: "model", ratio: 0.9 });
    const weightCount = layers.reduce((sum, { weights }) => sum + weights, 0);
    const zeroCount = layers.reduce((sum, { zerosAfter }) => sum + zerosAfter, 0);
    expect(zeroCount).toBe(Math.floor(0.9 * weightCount));
    for (const { weights, zerosAfter } of layers) expect(zerosAfter).toBeLessThan(weights);
  });
});

describe("equal weights", () => {
  it("lose exactly the requested number, the first ones first", () => {
    const equal = (): Model =>
      model({
        inputs: ["x: float [N, 1]"],
        outputs: ["y: float [N, 10]"],
        nodes: [node("MatMul x w -> h"), node("MatMul h v -> y")],
        constants: [
          floatTensor("w", Array<number>(10).fill(1), [1, 10]),
          floatTensor("v", Array<number>(100).fill(1), [10, 10]),
        ],
      });
    const byLayer = equal();
    expect(countZeros(pruneByMagnitude(byLayer, { ratio: 0.3 }))).toEqual({
      make_h: 3,
      make_y: 30,
    });
    expect(constantsOf(byLayer)["w"]?.data).toEqual([0, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
    expect(countZeros(pruneByMagnitude(equal(), { ratio: 0.3, scope: "model" }))).toEqual({
      make_h: 0,
      make_y: 33,
    });
  });
});

describe("invalid magnitude pruning", () => {
  it.each([
    [{ ratio: 1 }, /ratio is 1\b/],
    [{ ratio: new Map([["make_z", 0.5]]) }, /"make_z"/],
  ])("is rejected for the options %j, which the error names", (options, value) => {
    expect(() => pruneByMagnitude(twoLayerModel(), options)).toThrow(
      expect.objectContaining({ code: "invalid_pruning", detail: expect.stringMatching(value) }),
    );
  });

  it("is rejected for a graph without FP32 weights", () => {
    const bare = model({
      inputs: ["x: float [4]"],
      outputs: ["y: float [2, 2]"],
      nodes: [node("Reshape x s -> y")],
      constants: [int64Tensor("s", [2, 2])],
    });
    expect(() => pruneByMagnitude(bare, { ratio: 0.5 })).toThrow(
      expect.objectContaining({ code: "nothing_to_prune" }),
    );
  });
});
