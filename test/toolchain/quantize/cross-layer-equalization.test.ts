// Tests cross-layer equalization: factors move from one layer to the next.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { readFloats } from "../../../src/toolchain/onnx/tensor-data.ts";
import {
  collectHistograms,
  selectRanges,
} from "../../../src/toolchain/quantize/activation-ranges.ts";
import { equalizeLayers } from "../../../src/toolchain/quantize/cross-layer-equalization.ts";
import { ReferenceOutputs } from "../../../src/toolchain/quantize/output-deviation.ts";
import { quantizeStatic } from "../../../src/toolchain/quantize/static-quantization.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { floatAttribute, floatTensor, model, node } from "../onnx/model-builders.ts";
import { arbitraryNetwork, buildNetwork } from "./random-network.ts";
import {
  cloneModel,
  largestDifference,
  describeNodes,
  randomFp32Tensor,
  runModel,
  runtime,
} from "./run-model.ts";

const constant = ({ graph }: Model, name: string) =>
  graph.initializer
    .filter((tensor) => tensor.name === name)
    .flatMap((tensor) => [...readFloats(tensor)]);

describe("cross-layer equalization", () => {
  it("gives each channel the same largest weight in both layers", () => {
    const net = model({
      inputs: ["x: float [1, 1, 2, 2]"],
      outputs: ["y: float [1, 1, 2, 2]"],
      constants: [
        floatTensor("w1", [8, -0.5], [2, 1, 1, 1]),
        floatTensor("b1", [4, 1]),
        floatTensor("w2", [0.5, 2], [1, 2, 1, 1]),
      ],
      nodes: [node("Conv x w1 b1 -> h"), node("Relu h -> r"), node("Conv r w2 -> y")],
    });
    // The factors are sqrt(8 / 0.5) = 4 and sqrt(0.5 / 2) = 1/2.
    expect(equalizeLayers(net)).toEqual([{ first: "make_h", second: "make_y", largestFactor: 4 }]);
    expect({
      w1: constant(net, "w1"),
      b1: constant(net, "b1"),
      w2: constant(net, "w2"),
    }).toEqual({ w1: [2, -1], b1: [1, 2], w2: [2, 1] });
  });

  it("continues through depthwise layers, which have one input channel per output channel", () => {
    const net = buildNetwork({
      blocks: ["conv", "relu", "depthwise", "relu", "conv"],
      bias: true,
      seed: 5,
    });
    expect(equalizeLayers(net).map(({ first, second }) => `${first} ${second}`)).toEqual([
      "make_v0 make_v2",
      "make_v2 make_v4",
      "make_v4 make_y",
    ]);
    const largestWeights = (name: string) =>
      [0, 1, 2, 3].map((channel) =>
        Math.max(
          ...constant(net, name)
            .slice(9 * channel, 9 * channel + 9)
            .map(Math.abs),
        ),
      );
    const [depthwise, nextWeights] = [largestWeights("w2"), constant(net, "w4")];
    const nextLargest = [0, 1, 2, 3].map((channel) =>
      Math.max(
        ...nextWeights.filter((_, index) => Math.floor(index / 9) % 4 === channel).map(Math.abs),
      ),
    );
    for (const channel of [0, 1, 2, 3])
      expect(depthwise[channel]).toBeCloseTo(nextLargest[channel] ?? 0, 2);
  });
});

describe("cross-layer equalization", () => {
  it("preserves the outputs of any network", async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryNetwork, async (plan) => {
        const net = buildNetwork(plan);
        const before = cloneModel(net);
        equalizeLayers(net);
        const x = randomFp32Tensor([1, 4, 8, 8], plan.seed);
        const [expected, found] = [await runModel(before, { x }), await runModel(net, { x })];
        const size = Math.max(1, ...expected.map(Math.abs));
        expect(largestDifference(expected, found) / size).toBeLessThan(1e-4);
      }),
      { numRuns: propertyRuns(60), seed: 1 },
    );
  });
});

describe("cross-layer equalization", () => {
  it("includes the factors of a Gemm, and the summand of a MatMul", async () => {
    const net = model({
      inputs: ["x: float [1, 2]"],
      outputs: ["y: float [1, 2]"],
      constants: [
        floatTensor("w1", [8, -0.5, 4, 0.25], [2, 2]),
        floatTensor("b1", [1, 1]),
        floatTensor("w2", [0.5, 2, 3, 4], [2, 2]),
        floatTensor("b2", [1, -1]),
        floatTensor("w3", [1, 20, 3, 40], [2, 2]),
      ],
      nodes: [
        node("MatMul x w1 -> h"),
        node("Add h b1 -> s"),
        node("Relu s -> r"),
        node("Gemm r w2 b2 -> z", [
          floatAttribute("alpha", 0.5),
          floatAttribute("beta", 3),
          makeIntAttribute("transB", 1),
        ]),
        node("Gemm z w3 -> y", [floatAttribute("alpha", 2)]),
      ],
    });
    const before = cloneModel(net);
    expect(equalizeLayers(net)).toHaveLength(2);
    const x = randomFp32Tensor([1, 2], 3);
    expect(
      largestDifference(await runModel(before, { x }), await runModel(net, { x })),
    ).toBeLessThan(1e-3);
  });

  it("skips a layer with a single bias for all channels", async () => {
    const net = model({
      inputs: ["x: float [1, 2]"],
      outputs: ["y: float [1, 2]"],
      constants: [
        floatTensor("w1", [8, -0.5, 4, 0.25], [2, 2]),
        floatTensor("b1", [1]),
        floatTensor("w2", [0.5, 2, 3, 4], [2, 2]),
      ],
      nodes: [node("Gemm x w1 b1 -> h", [floatAttribute("beta", 2)]), node("MatMul h w2 -> y")],
    });
    const before = cloneModel(net);
    expect(equalizeLayers(net)).toEqual([]);
    const x = randomFp32Tensor([1, 2], 3);
    expect(await runModel(net, { x })).toEqual(await runModel(before, { x }));
  });
});

describe("cross-layer equalization", () => {
  it("skips pairs whose weights or result have other readers", () => {
    const shared = model({
      inputs: ["x: float [1, 2]"],
      outputs: ["y: float [1, 2]", "r: float [1, 2]"],
      constants: [floatTensor("w", [1, 2, 3, 4], [2, 2]), floatTensor("v", [1, 2, 3, 4], [2, 2])],
      nodes: [
        node("MatMul x w -> h"),
        node("Relu h -> r"),
        node("MatMul r v -> z"),
        node("MatMul z w -> y"),
      ],
    });
    expect(equalizeLayers(shared)).toEqual([]);
  });

  it("replaces ReLU6 by ReLU only on request", () => {
    const plan = { blocks: ["conv", "relu6", "conv"] as const, bias: false, seed: 1 };
    const [unchanged, replaced] = [buildNetwork(plan), buildNetwork(plan)];
    // The only pair consists of the last convolution and the Gemm.
    expect(equalizeLayers(unchanged)).toHaveLength(1);
    expect(equalizeLayers(replaced, { replaceRelu6: true })).toHaveLength(2);
    expect(describeNodes(replaced)).toContain("Relu v0 -> v1");
  });
});

describe("cross-layer equalization", () => {
  it("restores the precision of a common scale for channels of different size", async () => {
    // The first layer's channels grow by factors of 1 to 2,187, and the second layer compensates
    // for them.
    const factors = Array.from({ length: 8 }, (_, channel) => 3 ** channel);
    const randomWeights = (seed: number) => [...randomFp32Tensor([64], seed).data];
    const unevenModel = () =>
      model({
        inputs: ["x: float [N, 8]"],
        outputs: ["y: float [N, 8]"],
        constants: [
          floatTensor(
            "w1",
            randomWeights(1).map((value, index) => value * (factors[index % 8] ?? 1)),
            [8, 8],
          ),
          floatTensor(
            "w2",
            randomWeights(2).map((value, index) => value / (factors[index >> 3] ?? 1)),
            [8, 8],
          ),
        ],
        nodes: [node("MatMul x w1 -> h"), node("Relu h -> r"), node("MatMul r w2 -> y")],
      });
    const samples = Array.from({ length: 16 }, (_, seed) => ({
      x: randomFp32Tensor([1, 8], seed),
    }));
    const signalToNoise = async (original: Model) => {
      const quantized = cloneModel(original);
      quantizeStatic(
        quantized,
        selectRanges(original, await collectHistograms(runtime, original, samples), {
          kind: "minmax",
        }),
        { perChannel: false },
      );
      const [difference] = await (
        await ReferenceOutputs.record(runtime, serializeModel(original), samples)
      ).compare(runtime, serializeModel(quantized));
      return difference?.sqnrDb ?? 0;
    };
    const equalized = unevenModel();
    equalizeLayers(equalized);
    expect(await signalToNoise(unevenModel())).toBeLessThan(15);
    expect(await signalToNoise(equalized)).toBeGreaterThan(30);
  });
});
