// Factors that move from one layer to the next.
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
import { ReferenceOutputs } from "../../../src/toolchain/quantize/output-deviation.ts";
import { equalizeLayers } from "../../../src/toolchain/quantize/cross-layer-equalization.ts";
import { quantizeStatic } from "../../../src/toolchain/quantize/static-quantization.ts";
import { floatAttribute, floatTensor, model, node } from "../onnx/model-builders.ts";
import {
  cloneModel,
  largestDifference,
  describeNodes,
  randomFp32Tensor,
  runModel,
  runtime,
} from "./run-model.ts";
import { arbitraryNetwork, buildNetwork } from "./random-network.ts";

const constant = ({ graph }: Model, name: string) =>
  graph.initializer
    .filter((tensor) => tensor.name === name)
    .flatMap((tensor) => [...readFloats(tensor)]);

describe("equalisation", () => {
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
    // sqrt(8 / 0.5) = 4 and sqrt(0.5 / 2) = 1/2
    expect(equalizeLayers(net)).toEqual([{ first: "make_h", second: "make_y", largestFactor: 4 }]);
    expect([constant(net, "w1"), constant(net, "b1"), constant(net, "w2")]).toEqual([
      [2, -1],
      [1, 2],
      [2, 1],
    ]);
  });

  it("goes through depthwise layers, one input channel for each of their outputs", () => {
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
    const largest = (name: string) =>
      [0, 1, 2, 3].map((channel) =>
        Math.max(
          ...constant(net, name)
            .slice(9 * channel, 9 * channel + 9)
            .map(Math.abs),
        ),
      );
    const [depthwise, after] = [largest("w2"), constant(net, "w4")];
    const taken = [0, 1, 2, 3].map((channel) =>
      Math.max(...after.filter((_, index) => Math.floor(index / 9) % 4 === channel).map(Math.abs)),
    );
    for (const channel of [0, 1, 2, 3])
      expect(depthwise[channel]).toBeCloseTo(taken[channel] ?? 0, 2);
  });

  it("changes no output of any network", async () => {
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
      { numRuns: 60, seed: 1 },
    );
  });

  it("takes in what a Gemm is multiplied with, and what is added to a MatMul", async () => {
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

  it("leaves a layer alone whose bias is one number for all channels", async () => {
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

  it("leaves pairs alone whose weights, or whose result, others read as well", () => {
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

  it("makes ReLU of ReLU6 only where that is asked for", () => {
    const plan = { blocks: ["conv", "relu6", "conv"] as const, bias: false, seed: 1 };
    const [kept, replaced] = [buildNetwork(plan), buildNetwork(plan)];
    expect(equalizeLayers(kept)).toHaveLength(1); // the last convolution and the Gemm
    expect(equalizeLayers(replaced, { replaceRelu6: true })).toHaveLength(2);
    expect(describeNodes(replaced)).toContain("Relu v0 -> v1");
  });

  it("takes factors out again that make one scale for all weights lose much", async () => {
    // Channels of the first layer are 1 to 2,187 times as large as they were, and taken as much less of by the second.
    const factors = Array.from({ length: 8 }, (_, channel) => 3 ** channel);
    const even = (seed: number) => [...randomFp32Tensor([64], seed).data];
    const net = () =>
      model({
        inputs: ["x: float [N, 8]"],
        outputs: ["y: float [N, 8]"],
        constants: [
          floatTensor(
            "w1",
            even(1).map((value, index) => value * (factors[index % 8] ?? 1)),
            [8, 8],
          ),
          floatTensor(
            "w2",
            even(2).map((value, index) => value / (factors[index >> 3] ?? 1)),
            [8, 8],
          ),
        ],
        nodes: [node("MatMul x w1 -> h"), node("Relu h -> r"), node("MatMul r w2 -> y")],
      });
    const samples = Array.from({ length: 16 }, (_, seed) => ({
      x: randomFp32Tensor([1, 8], seed),
    }));
    const signalToNoise = async (original: Model) => {
      const quantised = cloneModel(original);
      quantizeStatic(
        quantised,
        selectRanges(original, await collectHistograms(runtime, original, samples), {
          kind: "minmax",
        }),
        { perChannel: false },
      );
      const [difference] = await (
        await ReferenceOutputs.record(runtime, serializeModel(original), samples)
      ).compare(runtime, serializeModel(quantised));
      return difference?.sqnrDb ?? 0;
    };
    const equalised = net();
    equalizeLayers(equalised);
    expect(await signalToNoise(net())).toBeLessThan(15);
    expect(await signalToNoise(equalised)).toBeGreaterThan(30);
  });
});
