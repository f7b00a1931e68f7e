// Tests that corrected biases remove the mean error of quantized layers.
import { describe, expect, it } from "vitest";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import {
  collectHistograms,
  selectRanges,
} from "../../../src/toolchain/quantize/activation-ranges.ts";
import { correctBiases } from "../../../src/toolchain/quantize/bias-correction.ts";
import { quantizeStatic } from "../../../src/toolchain/quantize/static-quantization.ts";
import { floatTensor, model, node } from "../onnx/model-builders.ts";
import { buildNetwork } from "./random-network.ts";
import { cloneModel, fp32Tensor, randomFp32Tensor, runModel, runtime } from "./run-model.ts";

/** Returns the mean of each output over the samples. */
async function measureMeans(
  net: Model,
  samples: readonly { readonly x: ReturnType<typeof fp32Tensor> }[],
  width: number,
): Promise<number[]> {
  const sums = Array.from({ length: width }, () => 0);
  for (const sample of samples)
    (await runModel(net, sample)).forEach(
      (value, index) => (sums[index % width] = (sums[index % width] ?? 0) + value),
    );
  return sums.map((sum) => sum / samples.length);
}

async function measureMeanErrors(
  net: Model,
  samples: readonly { readonly x: ReturnType<typeof fp32Tensor> }[],
  width: number,
  shouldCorrect: boolean,
) {
  const ranges = selectRanges(net, await collectHistograms(runtime, net, samples), {
    kind: "minmax",
  });
  const [expected, changed] = [await measureMeans(net, samples, width), cloneModel(net)];
  const progress: string[] = [];
  const corrected = shouldCorrect
    ? await correctBiases(runtime, changed, ranges, samples, { perChannel: false }, (done, total) =>
        progress.push(`${done} of ${total}`),
      )
    : [];
  quantizeStatic(changed, ranges, { perChannel: false });
  const quantizedMeans = await measureMeans(changed, samples, width);
  return {
    largest: Math.max(
      ...expected.map((mean, index) => Math.abs(mean - (quantizedMeans[index] ?? Number.NaN))),
    ),
    corrected,
    progress,
  };
}

describe("bias correction", () => {
  it("removes most of the mean error of a network with several layers", async () => {
    const net = buildNetwork({
      blocks: ["conv", "relu", "depthwise", "relu", "conv"],
      bias: true,
      seed: 9,
    });
    const samples = Array.from({ length: 16 }, (_, seed) => ({
      x: randomFp32Tensor([1, 4, 8, 8], seed),
    }));
    const [before, after] = [
      await measureMeanErrors(net, samples, 3, false),
      await measureMeanErrors(net, samples, 3, true),
    ];
    expect(after.largest).toBeLessThan(before.largest / 4);
    expect(after.corrected.map(({ node }) => node)).toEqual([
      "make_v0",
      "make_v2",
      "make_v4",
      "make_y",
    ]);
    expect(after.progress.at(-1)).toBe("4 of 4");
  });
});

describe("bias correction", () => {
  it("adds a bias to a layer without one, and corrects the summand of a MatMul", async () => {
    const net = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [
        floatTensor("w", [1, 0.005, 0.3, 0.004], [2, 2]),
        floatTensor("b", [1, 2]),
        floatTensor("v", [1, 0.013, 0.7, 0.021], [2, 2]),
      ],
      nodes: [node("MatMul x w -> h"), node("Add h b -> s"), node("Gemm s v -> y")],
    });
    const samples = Array.from({ length: 32 }, (_, seed) => ({
      x: fp32Tensor(
        [1, 2],
        randomFp32Tensor([2], seed).data.map((value) => value + 1),
      ),
    }));
    const [before, after] = [
      await measureMeanErrors(net, samples, 2, false),
      await measureMeanErrors(net, samples, 2, true),
    ];
    expect(after.corrected.map(({ node }) => node)).toEqual(["make_h", "make_y"]);
    expect(after.largest).toBeLessThan(before.largest / 4);
  });

  it("does not change a MatMul without a summand", async () => {
    const net = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [floatTensor("w", [1, 2, 3, 4], [2, 2])],
      nodes: [node("MatMul x w -> y")],
    });
    const { corrected } = await measureMeanErrors(
      net,
      [{ x: fp32Tensor([1, 2], [1, 2]) }],
      2,
      true,
    );
    expect(corrected).toEqual([]);
  });
});
