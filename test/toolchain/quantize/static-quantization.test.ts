// Tests static quantization: the resulting graphs, the operators that ONNX Runtime fuses, and the
// outputs. One file holds all cases, because they share the harness that runs fused graphs; it
// exceeds 300 lines.
import { describe, expect, it } from "vitest";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { findAttribute, makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import {
  elementTypeOf,
  readFloats,
  readIntegers,
} from "../../../src/toolchain/onnx/tensor-data.ts";
import {
  collectHistograms,
  selectRanges,
} from "../../../src/toolchain/quantize/activation-ranges.ts";
import {
  findActivationsNeedingRanges,
  quantizeStatic,
  type ActivationRanges,
  type StaticOptions,
} from "../../../src/toolchain/quantize/static-quantization.ts";
import {
  floatAttribute,
  floatTensor,
  int64Tensor,
  intListAttribute,
  model,
  node,
} from "../onnx/model-builders.ts";
import {
  cloneModel,
  fp32Tensor,
  readFusedOps,
  largestDifference,
  describeNodes,
  randomFp32Tensor,
  runModel,
  runtime,
} from "./run-model.ts";

const constantsOf = ({ graph }: Model) =>
  Object.fromEntries(
    graph.initializer.map((tensor) => [
      tensor.name,
      {
        type: elementTypeOf(tensor.dataType),
        dims: tensor.dims.map(Number),
        values: [...(readIntegers(tensor) ?? readFloats(tensor))],
      },
    ]),
  );
const ranges = (entries: Readonly<Record<string, readonly [number, number]>>): ActivationRanges =>
  new Map(Object.entries(entries).map(([name, [low, high]]) => [name, { low, high }]));

function quantizeModel(
  original: Model,
  activationRanges: ActivationRanges,
  options?: StaticOptions,
) {
  const changed = cloneModel(original);
  return { model: changed, report: quantizeStatic(changed, activationRanges, options) };
}

/**
 * Quantizes with ranges from a few random inputs, and measures the deviation from the original on
 * another one.
 */
async function quantizeOnRandomSamples(
  original: Model,
  shape: readonly number[],
  options: StaticOptions = {},
) {
  const samples = Array.from({ length: 8 }, (_, seed) => ({ x: randomFp32Tensor(shape, seed) }));
  const prepared = cloneModel(original);
  const activationRanges = selectRanges(
    prepared,
    await collectHistograms(runtime, prepared, samples, options),
    {
      kind: "minmax",
    },
  );
  const { model, report } = quantizeModel(original, activationRanges, options);
  const x = randomFp32Tensor(shape, 3);
  return {
    model,
    report,
    ops: await readFusedOps(model),
    difference: largestDifference(await runModel(original, { x }), await runModel(model, { x })),
  };
}

const matMulModel = (overrides: Partial<Parameters<typeof model>[0]> = {}) =>
  model({
    inputs: ["x: float [N, 2]"],
    outputs: ["y: float [N, 2]"],
    constants: [floatTensor("w", [1.27, -0.5, 0.635, 0.25], [2, 2])],
    nodes: [node("MatMul x w -> y")],
    ...overrides,
  });

describe("a quantized matrix product", () => {
  it("reads integer weights per column and an integer activation, and returns FP32", () => {
    const { model, report } = quantizeModel(matMulModel(), ranges({ x: [0, 5.1] }));
    expect(describeNodes(model)).toEqual([
      "QuantizeLinear x x_scale x_zero_point -> x_quantized",
      "DequantizeLinear x_quantized x_scale x_zero_point -> x_dequantized",
      "DequantizeLinear w_quantized w_scale w_zero_point -> w_dequantized",
      "MatMul x_dequantized w_dequantized -> y",
    ]);
    expect(constantsOf(model)).toEqual({
      x_scale: { type: "float", dims: [], values: [Math.fround(0.02)] },
      x_zero_point: { type: "uint8", dims: [], values: [0] },
      w_quantized: { type: "int8", dims: [2, 2], values: [127, -127, 64, 64] },
      w_scale: { type: "float", dims: [2], values: [Math.fround(0.01), Math.fround(0.5 / 127)] },
      w_zero_point: { type: "int8", dims: [2], values: [0, 0] },
    });
    expect(findAttribute(model.graph.node[2] ?? node("Add a b -> c"), "axis")?.i).toBe(1n);
    expect(report).toEqual({
      layers: [{ node: "make_y", op: "MatMul" }],
      kept: [],
      activations: 1,
    });
  });
});

describe("a quantized matrix product", () => {
  it("computes the value of its integers", async () => {
    const { model } = quantizeModel(matMulModel(), ranges({ x: [0, 5.1] }));
    // 1.013 is nearest to 51 steps of 0.02, and 9 is clipped to 5.1. 0.635 and 0.25 are 64 steps of
    // their columns' scales.
    const y = await runModel(model, { x: fp32Tensor([1, 2], [1.013, 9]) });
    expect([...y]).toEqual([
      expect.closeTo(1.02 * 1.27 + 5.1 * 0.64, 4),
      expect.closeTo(-1.02 * 0.5 + (5.1 * 64 * 0.5) / 127, 4),
    ]);
  });

  it.each<[string, StaticOptions, unknown]>([
    [
      "one scale for all weights",
      { perChannel: false },
      {
        w_quantized: { type: "int8", dims: [2, 2], values: [127, -50, 64, 25] },
        w_scale: { type: "float", dims: [], values: [Math.fround(0.01)] },
      },
    ],
    [
      "affine weights",
      { weights: "uint8", perChannel: false },
      {
        w_quantized: { type: "uint8", values: [255, 0, 163, 108] },
        w_zero_point: { values: [72] },
      },
    ],
    ["weights of 7 bits", { reduceRange: true }, { w_quantized: { values: [63, -63, 31, 31] } }],
    [
      "signed activations",
      { activations: "int8" },
      { x_zero_point: { type: "int8", values: [-128] } },
    ],
    [
      "symmetric activations",
      { activations: "int8", symmetricActivations: true },
      {
        x_zero_point: { type: "int8", values: [0] },
        x_scale: { values: [Math.fround(5.1 / 127)] },
      },
    ],
  ])("has %s on request", (_, options, expected) => {
    expect(
      constantsOf(quantizeModel(matMulModel(), ranges({ x: [0, 5.1] }), options).model),
    ).toMatchObject(expected as object);
  });

  it("is deterministic", () => {
    const bytes = () => serializeModel(quantizeModel(matMulModel(), ranges({ x: [0, 5.1] })).model);
    expect(Buffer.from(bytes()).equals(bytes())).toBe(true);
  });
});

describe("a quantized product with a bias", () => {
  const gemmModel = (...attributes: Parameters<typeof node>[1] & unknown[]) =>
    model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 3]"],
      constants: [
        floatTensor("w", [1.27, -1, 0.5, 1.27, 0.25, 1.27], [3, 2]),
        floatTensor("b", [1, -2, 1e6]),
      ],
      nodes: [node("Gemm x w b -> y", [makeIntAttribute("transB", 1), ...attributes])],
    });

  it("stores the bias in steps of both scales, which grow if it exceeds 32 bits", () => {
    const { model } = quantizeModel(gemmModel(), ranges({ x: [0, 5.1] }));
    const { w_scale, b_quantized, b_scale } = constantsOf(model);
    expect(b_quantized?.type).toBe("int32");
    // One step is 0.02 * 0.01.
    expect(b_quantized?.values.slice(0, 2)).toEqual([5_000, -10_000]);
    expect(w_scale?.values[0]).toBe(Math.fround(0.01));
    expect(w_scale?.values[2]).toBeCloseTo(1e6 / 2 ** 31 / 0.02, 3);
    // The step of this bias is about 5e-4, and FP32 represents the scale to within 6e-8 of its
    // value.
    const storedBias = (b_quantized?.values[2] ?? 0) * (b_scale?.values[2] ?? 0);
    expect(Math.abs(storedBias - 1e6)).toBeLessThan(0.1);
  });

  it("includes alpha and beta in weights and bias", async () => {
    const { model, difference, ops } = await quantizeOnRandomSamples(
      gemmModel(floatAttribute("alpha", 0.5), floatAttribute("beta", 2)),
      [1, 2],
    );
    expect(model.graph.node.at(-1)?.attribute.map(({ name }) => name)).toEqual(["transB"]);
    expect(ops).toContain("QGemm");
    // The outputs are about 2e6.
    expect(difference).toBeLessThan(1);
  });
});

const convolutionModel = () =>
  model({
    inputs: ["x: float [1, 3, 8, 8]"],
    outputs: ["y: float [1, 5]"],
    constants: [
      floatTensor("w1", [...randomFp32Tensor([8, 3, 3, 3], 1).data], [8, 3, 3, 3]),
      floatTensor("b1", [...randomFp32Tensor([8], 2).data]),
      floatTensor("w2", [...randomFp32Tensor([8, 1, 3, 3], 3).data], [8, 1, 3, 3]),
      floatTensor("b2", [...randomFp32Tensor([8], 4).data]),
      floatTensor("w3", [...randomFp32Tensor([8, 8, 1, 1], 5).data], [8, 8, 1, 1]),
      floatTensor("w4", [...randomFp32Tensor([16, 5], 6).data], [16, 5]),
      floatTensor("b4", [...randomFp32Tensor([5], 7).data]),
      floatTensor("low", [0], []),
      floatTensor("high", [6], []),
    ],
    nodes: [
      node("Conv x w1 b1 -> c1", [intListAttribute("pads", [1, 1, 1, 1])]),
      node("Relu c1 -> r1"),
      node("MaxPool r1 -> p1", [
        intListAttribute("kernel_shape", [2, 2]),
        intListAttribute("strides", [2, 2]),
      ]),
      node("Conv p1 w2 b2 -> c2", [
        intListAttribute("pads", [1, 1, 1, 1]),
        makeIntAttribute("group", 8),
      ]),
      node("Clip c2 low high -> r2"),
      node("Conv r2 w3 -> c3"),
      node("Add c3 p1 -> a"),
      node("Relu a -> r3"),
      node("Concat r3 p1 -> j", [makeIntAttribute("axis", 1)]),
      node("AveragePool j -> p2", [intListAttribute("kernel_shape", [2, 2])]),
      node("GlobalAveragePool p2 -> g"),
      node("Flatten g -> f"),
      node("Gemm f w4 b4 -> y"),
    ],
  });

describe("a quantized convolutional network", () => {
  it.each<[string, StaticOptions]>([
    ["by channel", {}],
    ["with one scale for each tensor", { perChannel: false }],
    ["with affine weights", { weights: "uint8" }],
  ])("runs in integers from end to end, %s", async (_, options) => {
    const { ops, report, difference } = await quantizeOnRandomSamples(
      convolutionModel(),
      [1, 3, 8, 8],
      options,
    );
    // ONNX Runtime's transposes change layouts, also those of integers.
    expect(ops.filter((op) => op !== "Transpose").map((op) => op.replace("Nhwc", ""))).toEqual([
      "QuantizeLinear",
      "QLinearConv",
      "MaxPool",
      "QLinearConv",
      "QLinearConv",
      "QLinearAdd",
      "QLinearConcat",
      "QLinearAveragePool",
      "QLinearGlobalAveragePool",
      "Flatten",
      "QGemm",
    ]);
    expect(report.kept).toEqual([]);
    // The outputs are up to 8.
    expect(difference).toBeLessThan(0.25);
  });
});

describe("a quantized convolutional network", () => {
  it("rounds after activation functions, and shares scales across data movements", () => {
    const original = cloneModel(convolutionModel());
    // ReLU and Clip bound the results of c1, c2 and a. The values p1, f and j share the scales of
    // others.
    expect(findActivationsNeedingRanges(original)).toEqual([
      "x",
      "r1",
      "r2",
      "c3",
      "r3",
      "p2",
      "g",
    ]);
    const { model } = quantizeModel(
      convolutionModel(),
      ranges({
        x: [-1, 1],
        r1: [0, 4],
        r2: [0, 6],
        c3: [-8, 8],
        r3: [0, 9],
        p2: [0, 5],
        g: [0, 3],
      }),
    );
    const scaleOf = (name: string) =>
      model.graph.node.find(({ opType, input }) => opType === "QuantizeLinear" && input[0] === name)
        ?.input[1];
    expect({ p1: scaleOf("p1"), j: scaleOf("j"), f: scaleOf("f") }).toEqual({
      p1: "r1_scale",
      j: "r3_scale",
      f: "g_scale",
    });
  });
});

describe("a quantized convolutional network", () => {
  it("has signed activations on request, which ONNX Runtime fuses if they have one reader", async () => {
    const { ops, difference } = await quantizeOnRandomSamples(convolutionModel(), [1, 3, 8, 8], {
      activations: "int8",
    });
    expect(ops.filter((op) => op === "QLinearConv").length).toBeGreaterThan(1);
    expect(difference).toBeLessThan(0.25);
  });

  it("keeps ReLUs as operators if activations are symmetric", async () => {
    const { ops, difference } = await quantizeOnRandomSamples(convolutionModel(), [1, 3, 8, 8], {
      activations: "int8",
      symmetricActivations: true,
    });
    expect(ops.filter((op) => op === "Relu" || op === "Clip")).toHaveLength(3);
    expect(difference).toBeLessThan(0.5);
  });
});

describe("a quantized convolutional network", () => {
  it("keeps excluded operators and nodes in FP32, with the reason", async () => {
    const { ops, report } = await quantizeOnRandomSamples(convolutionModel(), [1, 3, 8, 8], {
      keep: ["make_c2", "Gemm"],
    });
    expect(report.kept).toEqual([
      { node: "make_c2", op: "Conv", reason: "kept on request" },
      { node: "make_y", op: "Gemm", reason: "kept on request" },
    ]);
    // Without the Max node, ONNX Runtime would quantize the third convolution by itself.
    expect(ops.filter((op) => op === "QLinearConv")).toHaveLength(2);
    expect(ops.filter((op) => op === "Conv" || op === "FusedConv")).toHaveLength(1);
  });

  it("has only one integer layer if only that layer is selected", async () => {
    const { ops, report } = await quantizeOnRandomSamples(convolutionModel(), [1, 3, 8, 8], {
      only: ["make_c3"],
    });
    expect(report.layers).toEqual([{ node: "make_c3", op: "Conv" }]);
    expect(ops.filter((op) => op.startsWith("QLinear"))).toEqual(["QLinearConv"]);
  });
});

describe("a quantized graph", () => {
  it("keeps the names and types of inputs and outputs, including outputs with internal readers", async () => {
    const original = model({
      inputs: ["x: float [1, 1, 2, 2]"],
      outputs: ["c: float [1, 1, 2, 2]", "y: float [1, 1, 2, 2]"],
      constants: [floatTensor("w", [0.5], [1, 1, 1, 1])],
      nodes: [node("Conv x w -> c"), node("Conv c w -> y")],
    });
    const {
      model: changed,
      ops,
      difference,
    } = await quantizeOnRandomSamples(original, [1, 1, 2, 2]);
    expect(changed.graph.output.map(({ name }) => name)).toEqual(["c", "y"]);
    expect(ops.filter((op) => op === "QLinearConv")).toHaveLength(2);
    expect(difference).toBeLessThan(0.01);
  });
});

describe("a quantized embedding table", () => {
  it("has one row of integers per entry", async () => {
    const original = model({
      inputs: ["ids: int64 [N]"],
      outputs: ["y: float [N, 32]"],
      constants: [floatTensor("table", [...randomFp32Tensor([64, 32], 1).data], [64, 32])],
      nodes: [node("Gather table ids -> y")],
    });
    const { model: changed, report } = quantizeModel(original, new Map());
    expect(describeNodes(changed)).toEqual([
      "Gather table_quantized ids -> y_quantized",
      "DequantizeLinear y_quantized table_scale table_zero_point -> y",
    ]);
    expect(report.layers).toEqual([{ node: "make_y", op: "Gather" }]);
    const ids = { datatype: "INT64" as const, shape: [2], data: BigInt64Array.of(63n, 5n) };
    expect(
      largestDifference(await runModel(original, { ids }), await runModel(changed, { ids })),
    ).toBeLessThan(0.5 / 127);
  });

  it("feeds rows into products, which round them again", async () => {
    const original = model({
      inputs: ["ids: int64 [N]"],
      outputs: ["e: float [N, 32]", "y: float [N, 2]"],
      constants: [
        floatTensor("table", [...randomFp32Tensor([64, 32], 1).data], [64, 32]),
        floatTensor("w", [...randomFp32Tensor([32, 2], 2).data], [32, 2]),
      ],
      nodes: [node("Gather table ids -> e"), node("MatMul e w -> y")],
    });
    const { model: changed } = quantizeModel(original, ranges({ e: [-1, 1] }));
    const ids = { datatype: "INT64" as const, shape: [3], data: BigInt64Array.of(63n, 5n, 0n) };
    expect(await readFusedOps(changed)).toContain("MatMulIntegerToFloat");
    expect(
      largestDifference(await runModel(original, { ids }), await runModel(changed, { ids })),
    ).toBeLessThan(0.1);
  });
});

describe("shared weights", () => {
  it("remain in FP32 for other readers", () => {
    const original = matMulModel({
      outputs: ["y: float [N, 2]", "z: float [2, 2]"],
      nodes: [node("MatMul x w -> y"), node("Neg w -> z")],
    });
    const { model } = quantizeModel(original, ranges({ x: [0, 1] }));
    expect(model.graph.initializer.map(({ name }) => name)).toContain("w");
  });
});

describe("a graph that cannot be quantized", () => {
  it.each<[string, Model, ActivationRanges, StaticOptions, RegExp]>([
    ["old operators", matMulModel({ opset: 12 }), ranges({ x: [0, 1] }), {}, / 12 .* 13 /],
    ["an unknown range", matMulModel(), new Map(), {}, /\brange of "x"/],
    [
      "no layers",
      model({ inputs: ["x: float [2]"], outputs: ["y: float [2]"], nodes: [node("Relu x -> y")] }),
      new Map(),
      {},
      /\bno layers\b/,
    ],
    [
      "no constant weights",
      model({
        inputs: ["x: float [2, 2]"],
        outputs: ["y: float [2, 2]"],
        nodes: [node("MatMul x x -> y")],
      }),
      new Map(),
      {},
      /\b1 layers: .*\bboth\b.*\bactivations\b/,
    ],
    [
      "activations and weights of different signedness",
      matMulModel(),
      ranges({ x: [0, 1] }),
      { activations: "int8", weights: "uint8" },
      /\bsigned\b/,
    ],
  ])("is rejected with %s", (_, original, activationRanges, options, detail) => {
    expect(() => quantizeModel(original, activationRanges, options)).toThrow(
      expect.objectContaining({
        code: "not_quantizable",
        detail: expect.stringMatching(detail),
      }),
    );
  });
});

describe("layers that cannot be quantized", () => {
  it("stay in FP32 next to quantized layers", () => {
    const original = model({
      inputs: ["x: float [2, 2]"],
      outputs: ["y: float [2, 2]"],
      constants: [floatTensor("w", [1, 2, 3, 4], [2, 2]), int64Tensor("shape", [2, 2])],
      nodes: [
        node("MatMul x w -> h"),
        node("MatMul w h -> l"),
        node("MatMul l x -> m"),
        node("Reshape m shape -> y"),
      ],
    });
    expect(quantizeModel(original, ranges({ x: [0, 1] })).report).toEqual({
      layers: [{ node: "make_h", op: "MatMul" }],
      kept: [
        { node: "make_l", op: "MatMul", reason: expect.stringMatching(/\bleft\b/) },
        { node: "make_m", op: "MatMul", reason: expect.stringMatching(/\bboth\b/) },
      ],
      activations: 1,
    });
  });
});

describe("samples for ranges", () => {
  it("are rejected if there are none, or if values are not finite", async () => {
    await expect(collectHistograms(runtime, matMulModel(), [])).rejects.toMatchObject({
      code: "not_quantizable",
    });
    await expect(
      collectHistograms(runtime, matMulModel(), [
        { x: fp32Tensor([1, 2], [1, 1]) },
        { x: fp32Tensor([1, 2], [1, Number.NaN]) },
      ]),
    ).rejects.toMatchObject({
      code: "not_quantizable",
      detail: expect.stringMatching(/"x" .*\bsample 2\b/),
    });
  });
});
