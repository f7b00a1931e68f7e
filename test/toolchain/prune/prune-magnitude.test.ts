// Unstructured pruning on small graphs, worked out by hand.
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import {
  pruneByMagnitude,
  computeNonZeroBytes,
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
const readWeights = (pruned: Model) => [
  constantsOf(pruned)["w"]?.data,
  constantsOf(pruned)["v"]?.data.map((value) => Number(value.toFixed(1))),
  constantsOf(pruned)["b"]?.data.map((value) => Number(value.toFixed(2))),
];

describe("pruneByMagnitude", () => {
  it("zeros the smallest weights of each layer, and no biases", () => {
    const pruned = twoLayerModel();
    expect(pruneByMagnitude(pruned, { ratio: 0.5 })).toEqual([
      { layer: "make_h", op: "MatMul", weights: 8, zerosBefore: 1, zerosAfter: 4 },
      { layer: "make_y", op: "Gemm", weights: 8, zerosBefore: 0, zerosAfter: 4 },
    ]);
    expect(readWeights(pruned)).toEqual([
      [0, 0, 0, -4, 0, 6, -7, 8],
      [0, 0, 0, 0, -0.5, 0.6, 0.7, 0.8],
      [0.01, 0.02],
    ]);
  });

  it("zeros the smallest shares of all layers, by one threshold", () => {
    const uneven = model({
      inputs: ["x: float [N, 1]"],
      outputs: ["y: float [N, 1]"],
      nodes: [node("MatMul x w -> h"), node("MatMul h v -> y")],
      constants: [
        floatTensor("w", [0.02, 0.01, -0.03, 0.04], [1, 4]),
        floatTensor("v", [1, 40, 2, -3], [4, 1]),
      ],
    });
    // Shares in what is left: 1/30, 4/29, 9/25, 1 and 1/1614, 1, 4/1613, 9/1609.
    expect(
      pruneByMagnitude(uneven, { scope: "model", ratio: 0.5 }).map(({ zerosAfter }) => zerosAfter),
    ).toEqual([1, 3]);
    expect(constantsOf(uneven)["v"]?.data).toEqual([0, 40, 0, 0]);
    expect(constantsOf(uneven)["w"]?.data[1]).toBe(0);
    const real = parseModel(
      createAlexNet({ seed: 1, width: 0.125, hidden: 64, resolution: 64, classes: 10 }),
    );
    const layers = pruneByMagnitude(real, { scope: "model", ratio: 0.9 });
    const [all, zeros] = [
      layers.reduce((sum, { weights }) => sum + weights, 0),
      layers.reduce((sum, { zerosAfter }) => sum + zerosAfter, 0),
    ];
    expect([zeros, layers.every(({ weights, zerosAfter }) => zerosAfter < weights)]).toEqual([
      Math.floor(0.9 * all),
      true,
    ]);
  });

  it("takes ratios by layer", () => {
    const pruned = twoLayerModel();
    expect(
      pruneByMagnitude(pruned, { ratio: new Map([["make_y", 0.25]]) }).map(
        ({ zerosAfter }) => zerosAfter,
      ),
    ).toEqual([1, 2]);
    expect(computeNonZeroBytes(pruned, new Map([["make_y", 0.25]]))).toBe(4 * (8 + 6));
  });

  it("zeros exactly as many as asked for where weights are equal, the first ones", () => {
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
    const [byLayer, all] = [equal(), equal()];
    expect(pruneByMagnitude(byLayer, { ratio: 0.3 }).map(({ zerosAfter }) => zerosAfter)).toEqual([
      3, 30,
    ]);
    expect(constantsOf(byLayer)["w"]?.data).toEqual([0, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
    expect(
      pruneByMagnitude(all, { ratio: 0.3, scope: "model" }).map(({ zerosAfter }) => zerosAfter),
    ).toEqual([0, 33]);
  });

  it("makes a real file compress: 80 % zeros, less than half the bytes", () => {
    const original = createAlexNet({
      seed: 1,
      width: 0.125,
      hidden: 64,
      resolution: 64,
      classes: 10,
    });
    const pruned = parseModel(original);
    const layers = pruneByMagnitude(pruned, { ratio: 0.8 });
    expect(
      layers
        .map(({ weights, zerosAfter }) => zerosAfter / weights)
        .every((share) => Math.abs(share - 0.8) < 0.01),
    ).toBe(true);
    const zipped = (bytes: Uint8Array) => gzipSync(bytes).byteLength;
    expect(serializeModel(pruned).byteLength).toBe(original.byteLength);
    expect(zipped(serializeModel(pruned)) / zipped(original)).toBeLessThan(0.5);
  });

  it.each([
    [{ ratio: 1 }, "The ratio 1 is not from 0 to below 1."],
    [{ ratio: new Map([["make_z", 0.5]]) }, 'There is nothing to prune that is called "make_z".'],
  ])("refuses %j", (options, detail) => {
    expect(() => pruneByMagnitude(twoLayerModel(), options)).toThrow(
      expect.objectContaining({ code: "invalid_pruning", detail }),
    );
  });

  it("refuses a graph without FP32 weights", () => {
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
