// Tests dynamic quantization, which quantizes activations at run time.
import { describe, expect, it } from "vitest";
import { serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import {
  type DynamicOptions,
  quantizeDynamic,
} from "../../../src/toolchain/quantize/dynamic-quantization.ts";
import { floatAttribute, floatTensor, model, node } from "../onnx/model-builders.ts";
import {
  cloneModel,
  fp32Tensor,
  readFusedOps,
  largestDifference,
  describeNodes,
  randomFp32Tensor,
  runModel,
} from "./run-model.ts";

function quantizeModel(original: Model, options?: DynamicOptions) {
  const changed = cloneModel(original);
  return { model: changed, report: quantizeDynamic(changed, options) };
}

const denseModel = () =>
  model({
    inputs: ["x: float [N, 16]"],
    outputs: ["y: float [N, 8]"],
    constants: [
      floatTensor("w1", [...randomFp32Tensor([16, 24], 1).data], [16, 24]),
      floatTensor("b1", [...randomFp32Tensor([24], 2).data]),
      floatTensor("w2", [...randomFp32Tensor([8, 24], 3).data], [8, 24]),
      floatTensor("b2", [...randomFp32Tensor([8], 4).data]),
    ],
    nodes: [
      node("MatMul x w1 -> h"),
      node("Add h b1 -> s"),
      node("Relu s -> r"),
      node("Gemm r w2 b2 -> y", [
        makeIntAttribute("transB", 1),
        floatAttribute("alpha", 0.5),
        floatAttribute("beta", 2),
      ]),
    ],
  });

describe("dynamic quantization", () => {
  it("multiplies integers, with the scale of the activation at run time", async () => {
    const original = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 1]"],
      constants: [floatTensor("w", [1.27, -0.5], [2, 1])],
      nodes: [node("MatMul x w -> y")],
    });
    const { model: changed, report } = quantizeModel(original);
    expect(describeNodes(changed)).toEqual([
      "DynamicQuantizeLinear x -> x_quantized x_scale x_zero_point",
      "MatMulInteger x_quantized w_quantized x_zero_point w_zero_point -> y_sums",
      "Cast y_sums -> y_sums_fp32",
      "Mul x_scale w_scale -> y_scales",
      "Mul y_sums_fp32 y_scales -> y",
    ]);
    expect(report).toEqual({
      layers: [{ node: "make_y", op: "MatMul" }],
      kept: [],
      activations: 1,
    });
    // The largest value, 5.1, makes steps of 0.02; 1.013 is rounded to 51 of them.
    expect((await runModel(changed, { x: fp32Tensor([1, 2], [1.013, 5.1]) }))[0]).toBeCloseTo(
      1.02 * 1.27 - 5.1 * 0.5,
      4,
    );
  });
});

describe("dynamic quantization", () => {
  it.each<[string, DynamicOptions, number]>([
    ["by channel", {}, 0.05],
    ["with one scale", { perChannel: false }, 0.05],
    ["affine", { weights: "uint8" }, 0.05],
    ["affine, with one scale", { weights: "uint8", perChannel: false }, 0.05],
    ["with 7 bits", { reduceRange: true }, 0.1],
  ])("is fused by ONNX Runtime and close to FP32 with weights %s", async (_, options, bound) => {
    const { model: changed } = quantizeModel(denseModel(), options);
    const fusedOps = await readFusedOps(changed);
    expect(fusedOps.filter((op) => op === "DynamicQuantizeMatMul")).toHaveLength(2);
    expect(fusedOps).not.toContain("MatMulInteger");
    const x = randomFp32Tensor([4, 16], 5);
    expect(
      largestDifference(await runModel(denseModel(), { x }), await runModel(changed, { x })),
    ).toBeLessThan(bound);
  });

  it("quantizes an activation once for all its readers", () => {
    const original = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]", "z: float [N, 2]"],
      constants: [floatTensor("w", [1, 2, 3, 4], [2, 2])],
      nodes: [node("MatMul x w -> y"), node("MatMul x w -> z")],
    });
    const { model: changed, report } = quantizeModel(original);
    expect(
      changed.graph.node.filter(({ opType }) => opType === "DynamicQuantizeLinear"),
    ).toHaveLength(1);
    expect(report.activations).toBe(1);
  });
});

describe("dynamic quantization", () => {
  it("multiplies rows from an integer embedding table", async () => {
    const original = model({
      inputs: ["ids: int64 [N]"],
      outputs: ["y: float [N, 2]"],
      constants: [
        floatTensor("table", [...randomFp32Tensor([64, 32], 1).data], [64, 32]),
        floatTensor("w", [...randomFp32Tensor([32, 2], 2).data], [32, 2]),
      ],
      nodes: [node("Gather table ids -> e"), node("MatMul e w -> y")],
    });
    const { model: changed, report } = quantizeModel(original);
    expect(report.layers.map(({ op }) => op)).toEqual(["Gather", "MatMul"]);
    const ids = { datatype: "INT64" as const, shape: [3], data: BigInt64Array.of(63n, 5n, 0n) };
    expect(
      largestDifference(await runModel(original, { ids }), await runModel(changed, { ids })),
    ).toBeLessThan(0.1);
  });

  it("keeps convolutions and excluded nodes in FP32, and is deterministic", () => {
    const original = denseModel();
    original.graph.node.push(node("Conv i k -> c"));
    original.graph.input.push(
      ...model({ inputs: ["i: float [1, 1, 2, 2]"], outputs: [], nodes: [] }).graph.input,
    );
    original.graph.initializer.push(floatTensor("k", [1], [1, 1, 1, 1]));
    const { report } = quantizeModel(original, { keep: ["Gemm"] });
    expect(report.kept).toEqual([
      { node: "make_y", op: "Gemm", reason: "kept on request" },
      { node: "make_c", op: "Conv", reason: expect.stringContaining("slower") },
    ]);
    const bytes = () => serializeModel(quantizeModel(denseModel()).model);
    expect(Buffer.from(bytes()).equals(bytes())).toBe(true);
  });

  it("rejects a graph with convolutions only", () => {
    const original = model({
      inputs: ["x: float [1, 1, 2, 2]"],
      outputs: ["y: float [1, 1, 2, 2]"],
      constants: [floatTensor("w", [1], [1, 1, 1, 1])],
      nodes: [node("Conv x w -> y")],
    });
    expect(() => quantizeModel(original)).toThrow(
      expect.objectContaining({
        code: "not_quantizable",
        detail: expect.stringMatching(/\b1 layers\b.*\bslower\b/),
        remedy: expect.stringMatching(/\bstatic quantization\b/),
      }),
    );
  });
});
