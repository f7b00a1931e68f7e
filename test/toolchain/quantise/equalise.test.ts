// Factors that move from one layer to the next.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { writeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { intAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { floatsOf } from "../../../src/toolchain/onnx/tensors.ts";
import { collectStatistics, rangesOf } from "../../../src/toolchain/quantise/calibrate.ts";
import { Reference } from "../../../src/toolchain/quantise/differences.ts";
import { equalise } from "../../../src/toolchain/quantise/equalise.ts";
import { quantiseStatic } from "../../../src/toolchain/quantise/static.ts";
import { float, floats, model, node } from "../onnx/small-model.ts";
import { copyOf, largestDifference, opsOf, randomFp32, run, runtime } from "./run.ts";
import { anyNet, makeNet } from "./random-net.ts";

const constant = ({ graph }: Model, name: string) =>
  graph.initializer
    .filter((tensor) => tensor.name === name)
    .flatMap((tensor) => [...floatsOf(tensor)]);

describe("equalisation", () => {
  it("gives each channel the same largest weight in both layers", () => {
    const net = model({
      inputs: ["x: float [1, 1, 2, 2]"],
      outputs: ["y: float [1, 1, 2, 2]"],
      constants: [
        floats("w1", [8, -0.5], [2, 1, 1, 1]),
        floats("b1", [4, 1]),
        floats("w2", [0.5, 2], [1, 2, 1, 1]),
      ],
      nodes: [node("Conv x w1 b1 -> h"), node("Relu h -> r"), node("Conv r w2 -> y")],
    });
    // sqrt(8 / 0.5) = 4 and sqrt(0.5 / 2) = 1/2
    expect(equalise(net)).toEqual([{ first: "make_h", second: "make_y", largestFactor: 4 }]);
    expect([constant(net, "w1"), constant(net, "b1"), constant(net, "w2")]).toEqual([
      [2, -1],
      [1, 2],
      [2, 1],
    ]);
  });

  it("goes through depthwise layers, one input channel for each of their outputs", () => {
    const net = makeNet({
      blocks: ["conv", "relu", "depthwise", "relu", "conv"],
      bias: true,
      seed: 5,
    });
    expect(equalise(net).map(({ first, second }) => `${first} ${second}`)).toEqual([
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
      fc.asyncProperty(anyNet, async (plan) => {
        const net = makeNet(plan);
        const before = copyOf(net);
        equalise(net);
        const x = randomFp32([1, 4, 8, 8], plan.seed);
        const [expected, found] = [await run(before, { x }), await run(net, { x })];
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
        floats("w1", [8, -0.5, 4, 0.25], [2, 2]),
        floats("b1", [1, 1]),
        floats("w2", [0.5, 2, 3, 4], [2, 2]),
        floats("b2", [1, -1]),
        floats("w3", [1, 20, 3, 40], [2, 2]),
      ],
      nodes: [
        node("MatMul x w1 -> h"),
        node("Add h b1 -> s"),
        node("Relu s -> r"),
        node("Gemm r w2 b2 -> z", [
          float("alpha", 0.5),
          float("beta", 3),
          intAttribute("transB", 1),
        ]),
        node("Gemm z w3 -> y", [float("alpha", 2)]),
      ],
    });
    const before = copyOf(net);
    expect(equalise(net)).toHaveLength(2);
    const x = randomFp32([1, 2], 3);
    expect(largestDifference(await run(before, { x }), await run(net, { x }))).toBeLessThan(1e-3);
  });

  it("leaves a layer alone whose bias is one number for all channels", async () => {
    const net = model({
      inputs: ["x: float [1, 2]"],
      outputs: ["y: float [1, 2]"],
      constants: [
        floats("w1", [8, -0.5, 4, 0.25], [2, 2]),
        floats("b1", [1]),
        floats("w2", [0.5, 2, 3, 4], [2, 2]),
      ],
      nodes: [node("Gemm x w1 b1 -> h", [float("beta", 2)]), node("MatMul h w2 -> y")],
    });
    const before = copyOf(net);
    expect(equalise(net)).toEqual([]);
    const x = randomFp32([1, 2], 3);
    expect(await run(net, { x })).toEqual(await run(before, { x }));
  });

  it("leaves pairs alone whose weights, or whose result, others read as well", () => {
    const shared = model({
      inputs: ["x: float [1, 2]"],
      outputs: ["y: float [1, 2]", "r: float [1, 2]"],
      constants: [floats("w", [1, 2, 3, 4], [2, 2]), floats("v", [1, 2, 3, 4], [2, 2])],
      nodes: [
        node("MatMul x w -> h"),
        node("Relu h -> r"),
        node("MatMul r v -> z"),
        node("MatMul z w -> y"),
      ],
    });
    expect(equalise(shared)).toEqual([]);
  });

  it("makes ReLU of ReLU6 only where that is asked for", () => {
    const plan = { blocks: ["conv", "relu6", "conv"] as const, bias: false, seed: 1 };
    const [kept, replaced] = [makeNet(plan), makeNet(plan)];
    expect(equalise(kept)).toHaveLength(1); // the last convolution and the Gemm
    expect(equalise(replaced, { replaceRelu6: true })).toHaveLength(2);
    expect(opsOf(replaced)).toContain("Relu v0 -> v1");
  });

  it("takes factors out again that make one scale for all weights lose much", async () => {
    // Channels of the first layer are 1 to 2,187 times as large as they were, and taken as much less of by the second.
    const factors = Array.from({ length: 8 }, (_, channel) => 3 ** channel);
    const even = (seed: number) => [...randomFp32([64], seed).data];
    const net = () =>
      model({
        inputs: ["x: float [N, 8]"],
        outputs: ["y: float [N, 8]"],
        constants: [
          floats(
            "w1",
            even(1).map((value, index) => value * (factors[index % 8] ?? 1)),
            [8, 8],
          ),
          floats(
            "w2",
            even(2).map((value, index) => value / (factors[index >> 3] ?? 1)),
            [8, 8],
          ),
        ],
        nodes: [node("MatMul x w1 -> h"), node("Relu h -> r"), node("MatMul r w2 -> y")],
      });
    const samples = Array.from({ length: 16 }, (_, seed) => ({ x: randomFp32([1, 8], seed) }));
    const signalToNoise = async (original: Model) => {
      const quantised = copyOf(original);
      quantiseStatic(
        quantised,
        rangesOf(original, await collectStatistics(runtime, original, samples), {
          method: "minmax",
        }),
        { perChannel: false },
      );
      const [difference] = await (
        await Reference.of(runtime, writeModel(original), samples)
      ).compare(runtime, writeModel(quantised));
      return difference?.sqnrDb ?? 0;
    };
    const equalised = net();
    equalise(equalised);
    expect(await signalToNoise(net())).toBeLessThan(15);
    expect(await signalToNoise(equalised)).toBeGreaterThan(30);
  });
});
