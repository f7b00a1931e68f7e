// The mean error of layers, taken back by their biases.
import { describe, expect, it } from "vitest";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { correctBiases } from "../../../src/toolchain/quantise/bias-correction.ts";
import { collectStatistics, rangesOf } from "../../../src/toolchain/quantise/calibrate.ts";
import { quantiseStatic } from "../../../src/toolchain/quantise/static.ts";
import { floats, model, node } from "../onnx/small-model.ts";
import { copyOf, fp32, randomFp32, run, runtime } from "./run.ts";
import { makeNet } from "./random-net.ts";

/** The mean of each output over the samples. */
async function means(
  net: Model,
  samples: readonly { readonly x: ReturnType<typeof fp32> }[],
  width: number,
): Promise<number[]> {
  const sums = Array.from({ length: width }, () => 0);
  for (const sample of samples)
    (await run(net, sample)).forEach(
      (value, index) => (sums[index % width] = (sums[index % width] ?? 0) + value),
    );
  return sums.map((sum) => sum / samples.length);
}

async function errorsOfMeans(
  net: Model,
  samples: readonly { readonly x: ReturnType<typeof fp32> }[],
  width: number,
  correct: boolean,
) {
  const ranges = rangesOf(net, await collectStatistics(runtime, net, samples), {
    method: "minmax",
  });
  const [expected, changed] = [await means(net, samples, width), copyOf(net)];
  const steps: string[] = [];
  const corrected = correct
    ? await correctBiases(runtime, changed, ranges, samples, { perChannel: false }, (done, of) =>
        steps.push(`${done} of ${of}`),
      )
    : [];
  quantiseStatic(changed, ranges, { perChannel: false });
  const found = await means(changed, samples, width);
  return {
    largest: Math.max(
      ...expected.map((mean, index) => Math.abs(mean - (found[index] ?? Number.NaN))),
    ),
    corrected,
    steps,
  };
}

describe("bias correction", () => {
  it("takes back the mean error of a network of several layers", async () => {
    const net = makeNet({
      blocks: ["conv", "relu", "depthwise", "relu", "conv"],
      bias: true,
      seed: 9,
    });
    const samples = Array.from({ length: 16 }, (_, seed) => ({
      x: randomFp32([1, 4, 8, 8], seed),
    }));
    const [before, after] = [
      await errorsOfMeans(net, samples, 3, false),
      await errorsOfMeans(net, samples, 3, true),
    ];
    expect(after.largest).toBeLessThan(before.largest / 4);
    expect(after.corrected.map(({ node }) => node)).toEqual([
      "make_v0",
      "make_v2",
      "make_v4",
      "make_y",
    ]);
    expect(after.steps.at(-1)).toBe("4 of 4");
  });

  it("gives a bias to a layer that has none, and corrects what is added to a MatMul", async () => {
    const net = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [
        floats("w", [1, 0.005, 0.3, 0.004], [2, 2]),
        floats("b", [1, 2]),
        floats("v", [1, 0.013, 0.7, 0.021], [2, 2]),
      ],
      nodes: [node("MatMul x w -> h"), node("Add h b -> s"), node("Gemm s v -> y")],
    });
    const samples = Array.from({ length: 32 }, (_, seed) => ({
      x: fp32(
        [1, 2],
        randomFp32([2], seed).data.map((value) => value + 1),
      ),
    }));
    const [before, after] = [
      await errorsOfMeans(net, samples, 2, false),
      await errorsOfMeans(net, samples, 2, true),
    ];
    expect(after.corrected.map(({ node }) => node)).toEqual(["make_h", "make_y"]);
    expect(after.largest).toBeLessThan(before.largest / 4);
  });

  it("leaves a MatMul alone that nothing is added to", async () => {
    const net = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [floats("w", [1, 2, 3, 4], [2, 2])],
      nodes: [node("MatMul x w -> y")],
    });
    const { corrected } = await errorsOfMeans(net, [{ x: fp32([1, 2], [1, 2]) }], 2, true);
    expect(corrected).toEqual([]);
  });
});
