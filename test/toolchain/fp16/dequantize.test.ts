// Tests the conversion of quantized graphs to FP32: the same numbers, except for the rounding to 8
// bits.
import { describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { compareModels } from "../../../src/toolchain/fp16/compare-models.ts";
import { dequantize } from "../../../src/toolchain/fp16/dequantize.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { readFloats, makeTensor } from "../../../src/toolchain/onnx/tensor-data.ts";
import {
  floatTensor,
  int8Tensor,
  intListAttribute,
  model,
  node,
  type ModelSpec,
} from "../onnx/model-builders.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });
const uint8s = (name: string, values: readonly number[]) =>
  makeTensor(
    name,
    "uint8",
    values.length === 1 ? [] : [BigInt(values.length)],
    Uint8Array.from(values),
  );
const int32s = (name: string, values: readonly number[]) =>
  makeTensor(name, "int32", [BigInt(values.length)], Int32Array.from(values));
const opsOf = ({ graph }: Model) =>
  graph.node.map(({ opType, input, output }) => `${opType} ${input[0]} -> ${output.join(" ")}`);
const numbersIn = ({ graph }: Model, name: string) =>
  graph.initializer
    .filter((tensor) => tensor.name === name)
    .flatMap((tensor) => [...readFloats(tensor)]);

function dequantizeModel(original: ModelSpec) {
  const before = serializeModel(model(original));
  const changed = parseModel(before);
  const report = dequantize(changed);
  return {
    changed,
    report,
    difference: async () =>
      (await compareModels(runtime, before, serializeModel(changed))).outputs[0]?.maxAbsolute,
  };
}

/** Rounds x to steps of 0.1 from 0 to 25.5; the weights are integers. */
const qdqModel = (): ModelSpec => ({
  inputs: ["x: float [N, 2]"],
  outputs: ["y: float [N, 2]"],
  constants: [
    floatTensor("s", [0.1], []),
    uint8s("z", [0]),
    int8Tensor("w", [1, -2, 3, 4], [2, 2]),
    floatTensor("ws", [1, 0.5]),
    int8Tensor("wz", [0, 2]),
  ],
  nodes: [
    node("QuantizeLinear x s z -> q"),
    node("DequantizeLinear q s z -> d"),
    node("DequantizeLinear w ws wz -> v", [makeIntAttribute("axis", 1)]),
    node("MatMul d v -> y"),
  ],
});

describe("Q and DQ", () => {
  it("become a range, and constants by channel", async () => {
    const { changed, report, difference } = dequantizeModel(qdqModel());
    expect(report).toEqual({ constants: 1, activations: 1 });
    expect(opsOf(changed)).toEqual(["Clip x -> x_clipped", "MatMul x_clipped -> y"]);
    expect(numbersIn(changed, "v")).toEqual([1, -2, 3, 1]);
    expect({
      from: numbersIn(changed, "x_clipped_from"),
      to: numbersIn(changed, "x_clipped_to"),
    }).toEqual({ from: [0], to: [expect.closeTo(25.5)] });
    expect(changed.graph.initializer.map(({ name }) => name).sort()).toEqual([
      "v",
      "x_clipped_from",
      "x_clipped_to",
    ]);
    // The bound is half a step of x, times the largest sum of a column's weights.
    expect(await difference()).toBeLessThan(0.05 * 4 + 1e-4);
  });

  it("keep an output's name", async () => {
    const { nodes, ...rest } = qdqModel();
    const { changed, difference } = dequantizeModel({
      ...rest,
      nodes: [
        node("Neg x -> n"),
        ...nodes.slice(0, 1).map(() => node("QuantizeLinear n s z -> q")),
        node("DequantizeLinear q s z -> y"),
      ],
    });
    expect(opsOf(changed)).toEqual(["Neg x -> n", "Clip n -> y"]);
    expect(await difference()).toBeLessThan(0.0501);
  });
});

describe("Q and DQ", () => {
  it("are converted in sequence", async () => {
    const { nodes, constants = [], ...rest } = qdqModel();
    const { changed, difference } = dequantizeModel({
      ...rest,
      constants: [...constants, floatTensor("t", [0.002], [])],
      nodes: [
        ...nodes.slice(0, 2),
        node("QuantizeLinear d t z -> r"),
        node("DequantizeLinear r t z -> e"),
        node("Neg e -> y"),
      ],
    });
    expect(opsOf(changed)).toEqual([
      "Clip x -> x_clipped",
      "Clip x_clipped -> d_clipped",
      "Neg d_clipped -> y",
    ]);
    expect(await difference()).toBeLessThan(0.0511);
  });

  it("stay if they are not inverses, or if another node reads the integers", () => {
    const { nodes, constants = [], ...rest } = qdqModel();
    const mismatched = dequantizeModel({
      ...rest,
      constants: [...constants, floatTensor("t", [0.2], [])],
      nodes: nodes.map((current) =>
        current.name === "make_d" ? node("DequantizeLinear q t z -> d") : current,
      ),
    });
    expect(opsOf(mismatched.changed)).toEqual([
      "QuantizeLinear x -> q",
      "DequantizeLinear q -> d",
      "MatMul d -> y",
    ]);
    const exposed = dequantizeModel({
      ...rest,
      constants,
      outputs: ["y: float [N, 2]", "q: uint8 [N, 2]"],
      nodes,
    });
    expect(opsOf(exposed.changed)).toEqual([
      "QuantizeLinear x -> q",
      "Clip x -> x_clipped",
      "MatMul x_clipped -> y",
    ]);
  });

  it("stay in a graph whose Clip has no bounds as inputs", () => {
    expect(
      dequantizeModel({
        ...qdqModel(),
        opset: 10,
        nodes: qdqModel().nodes.slice(0, 2),
        outputs: ["d: float [N, 2]"],
      }).report,
    ).toEqual({ constants: 0, activations: 0 });
  });
});

const qlinearConstants = [
  floatTensor("xs", [1 / 64], []),
  uint8s("xz", [64]),
  floatTensor("ys", [1 / 16], []),
  uint8s("yz", [0]),
];
const betweenQuantization = (op: ReturnType<typeof node>) => [
  node("QuantizeLinear x xs xz -> q"),
  op,
  node("DequantizeLinear p ys yz -> y"),
];

describe("QLinear operators", () => {
  it("QLinearConv becomes a Conv with a bias and the range of its output", async () => {
    const { changed, report, difference } = dequantizeModel({
      inputs: ["x: float [N, 1, 4, 4]"],
      outputs: ["y: float [N, 2, 2, 2]"],
      constants: [
        ...qlinearConstants,
        int8Tensor("w", [10, -20, 30, 40, -50, 60, 70, 80], [2, 1, 2, 2]),
        floatTensor("ws", [1 / 32, 1 / 64]),
        int8Tensor("wz", [0, 0]),
        int32s("b", [2048, -4096]),
      ],
      nodes: betweenQuantization(
        node("QLinearConv q xs xz w ws wz ys yz b -> p", [intListAttribute("strides", [2, 2])]),
      ),
    });
    expect(report).toEqual({ constants: 1, activations: 2 });
    expect(opsOf(changed)).toEqual([
      "Clip x -> x_clipped",
      "Conv x_clipped -> p_real",
      "Clip p_real -> y",
    ]);
    expect(numbersIn(changed, "b_real")).toEqual([1, -1]);
    expect(numbersIn(changed, "w_real").slice(3, 5)).toEqual([40 / 32, -50 / 64]);
    // The bound is half a step of the output, plus half a step of the inputs times the weights.
    expect(await difference()).toBeLessThan(1 / 32 + (4 * 80) / 64 / 128 + 1e-4);
  });
});

describe("QLinear operators", () => {
  it("QLinearMatMul becomes a MatMul", async () => {
    const { changed, difference } = dequantizeModel({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [
        ...qlinearConstants,
        int8Tensor("w", [32, -64, 16, 96], [2, 2]),
        floatTensor("ws", [1 / 32], []),
        int8Tensor("wz", [0], []),
      ],
      nodes: betweenQuantization(node("QLinearMatMul q xs xz w ws wz ys yz -> p")),
    });
    expect(opsOf(changed)).toEqual([
      "Clip x -> x_clipped",
      "MatMul x_clipped -> p_real",
      "Clip p_real -> y",
    ]);
    expect(await difference()).toBeLessThan(1 / 32 + 5 / 128 + 1e-4);
  });

  it("stay if a scale is not constant", () => {
    const { report } = dequantizeModel({
      inputs: ["q: uint8 [N, 2]", "xs: float []"],
      outputs: ["p: uint8 [N, 2]"],
      constants: [
        ...qlinearConstants.slice(1),
        int8Tensor("w", [32, -64, 16, 96], [2, 2]),
        floatTensor("ws", [1 / 32], []),
        int8Tensor("wz", [0], []),
      ],
      nodes: [node("QLinearMatMul q xs xz w ws wz ys yz -> p")],
    });
    expect(report).toEqual({ constants: 0, activations: 0 });
  });
});
