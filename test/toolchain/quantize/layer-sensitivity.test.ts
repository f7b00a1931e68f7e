// Tests the ranking of layers by sensitivity, and the search for layers to keep in FP32.
import { describe, expect, it } from "vitest";
import { serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import {
  searchFp32Layers,
  mostSensitiveLayers,
  rankLayers,
} from "../../../src/toolchain/quantize/layer-sensitivity.ts";
import { ReferenceOutputs } from "../../../src/toolchain/quantize/output-deviation.ts";
import { createQuantizer } from "../../../src/toolchain/quantize/quantizer.ts";
import { floatTensor, model, node } from "../onnx/model-builders.ts";
import { cloneModel, randomFp32Tensor, runtime } from "./run-model.ts";

/**
 * In the second layer, one weight dwarfs all others, which are rounded to 0. It is multiplied by 0
 * itself.
 */
function modelWithOutlierLayer() {
  const weights = (seed: number) => [...randomFp32Tensor([8, 8], seed).data];
  const sparse = weights(1).map((value, index) => (index % 8 === 0 ? 0 : value));
  const outlier = weights(2).map((value, index) => (index === 0 ? 500 : value));
  return model({
    inputs: ["x: float [N, 8]"],
    outputs: ["y: float [N, 8]"],
    constants: [
      floatTensor("w1", sparse, [8, 8]),
      floatTensor("w2", outlier, [8, 8]),
      floatTensor("w3", weights(3), [8, 8]),
    ],
    nodes: [
      node("MatMul x w1 -> a"),
      node("Relu a -> b"),
      node("MatMul b w2 -> c"),
      node("MatMul c w3 -> y"),
    ],
  });
}
const samples = Array.from({ length: 16 }, (_, seed) => ({ x: randomFp32Tensor([1, 8], seed) }));

describe.each(["static", "dynamic"] as const)("%s quantization", (mode) => {
  const request = { mode, samples, perChannel: false } as const;

  it("ranks the layer with the most uneven weights first", async () => {
    const progress: string[] = [];
    const { quantizeSelected, fp32Graph } = await createQuantizer(
      runtime,
      modelWithOutlierLayer(),
      request,
    );
    const ranking = await rankLayers(
      runtime,
      modelWithOutlierLayer(),
      quantizeSelected,
      samples,
      {},
      (completed, total) => progress.push(`${completed} of ${total}`),
    );
    expect(ranking.map(({ node }) => node)).toHaveLength(3);
    expect(ranking[0]).toMatchObject({ node: "make_c", op: "MatMul" });
    expect(ranking[0]?.sqnrDb ?? 99).toBeLessThan((ranking[1]?.sqnrDb ?? 0) - 6);
    expect(progress).toEqual(["1 of 3", "2 of 3", "3 of 3"]);
    expect(fp32Graph.byteLength).toBeGreaterThan(0);
  });
});

describe.each(["static", "dynamic"] as const)("FP32 layers in %s quantization", (mode) => {
  const request = { mode, samples, perChannel: false } as const;
  it("are added until the evaluation is acceptable, or the limit is reached", async () => {
    const { quantizeSelected, quantize, fp32Graph } = await createQuantizer(
      runtime,
      modelWithOutlierLayer(),
      request,
    );
    const ranking = await rankLayers(runtime, modelWithOutlierLayer(), quantizeSelected, samples);
    const reference = await ReferenceOutputs.record(runtime, fp32Graph, samples);
    const evaluate = async (keep: readonly string[]) => {
      const { graph, kept } = await quantize(keep);
      return {
        sqnrDb: (await reference.compare(runtime, graph))[0]?.sqnrDb ?? 99,
        kept: kept.map(({ node }) => node),
      };
    };
    const baseline = await evaluate([]);
    const result = await searchFp32Layers({
      ranking,
      maxFp32Layers: 2,
      evaluate,
      isAcceptable: ({ sqnrDb }) => sqnrDb > baseline.sqnrDb + 6,
    });
    expect(result).toMatchObject({
      keep: ["make_c"],
      isAcceptable: true,
      evaluation: { kept: ["make_c"] },
    });
    expect(result.attempts.map(({ fp32Layers }) => fp32Layers)).toEqual([0, 1]);
    const never = await searchFp32Layers({
      ranking,
      maxFp32Layers: 2,
      evaluate,
      isAcceptable: () => false,
    });
    expect(never).toMatchObject({ keep: mostSensitiveLayers(ranking, 2), isAcceptable: false });
    expect(never.attempts).toHaveLength(3);
  });
});

it("does not rank layers that the caller keeps or the quantizer does not support", async () => {
  const { quantizeSelected } = await createQuantizer(runtime, modelWithOutlierLayer(), {
    mode: "dynamic",
  });
  const mixed = cloneModel(modelWithOutlierLayer());
  mixed.graph.node.push(node("Conv i k -> z"));
  mixed.graph.input.push(
    ...model({ inputs: ["i: float [1, 1, 2, 2]"], outputs: [], nodes: [] }).graph.input,
  );
  mixed.graph.initializer.push(floatTensor("k", [1], [1, 1, 1, 1]));
  const inputs = samples.map((sample) => ({ ...sample, i: randomFp32Tensor([1, 1, 2, 2], 1) }));
  const ranking = await rankLayers(runtime, mixed, quantizeSelected, inputs, { keep: ["make_a"] });
  expect(ranking.map(({ node }) => node).toSorted()).toEqual(["make_c", "make_y"]);
});

describe("output deviations", () => {
  it("are zero between equal graphs", async () => {
    const graph = serializeModel(modelWithOutlierLayer());
    expect(
      await (await ReferenceOutputs.record(runtime, graph, samples)).compare(runtime, graph),
    ).toEqual([{ output: "y", sqnrDb: null, maxAbsolute: 0, meanAbsolute: 0, argmaxAgreement: 1 }]);
  });

  it("match values computed by hand", async () => {
    const scaled = (factors: readonly number[]) =>
      serializeModel(
        model({
          inputs: ["x: float [1, 2]"],
          outputs: ["y: float [1, 2]"],
          constants: [floatTensor("k", factors)],
          nodes: [node("Mul x k -> y")],
        }),
      );
    const x = { datatype: "FP32" as const, shape: [1, 2], data: Float32Array.of(3, 4) };
    const reference = await ReferenceOutputs.record(runtime, scaled([1, 1]), [{ x }]);
    // 3 and 4 become 3 and 2, so the noise is 2 ** 2 and the signal 5 ** 2.
    expect(await reference.compare(runtime, scaled([1, 0.5]))).toEqual([
      {
        output: "y",
        sqnrDb: expect.closeTo(10 * Math.log10(25 / 4), 9),
        maxAbsolute: 2,
        meanAbsolute: 1,
        argmaxAgreement: 0,
      },
    ]);
  });
});
