// Parameters, bytes and MACs of layers, compared with values worked out by hand.
import { expect, it } from "vitest";
import { parseModel } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { computeLayerCosts, sumLayerCosts } from "../../../src/toolchain/prune/graph-cost.ts";
import { measureShapes } from "../../../src/toolchain/prune/measure-shapes.ts";
import { createMobileNet } from "../../bench/lib/mobilenet.ts";
import { floatTensor, int64Tensor, intListAttribute, model, node } from "../onnx/model-builders.ts";
import { runtime, measureModelShapes } from "./model-runs.ts";

const ones = (name: string, dims: readonly number[]) =>
  floatTensor(name, Array<number>(dims.reduce((product, size) => product * size, 1)).fill(1), dims);

it("counts the costs of convolutions and matrix products, and the constants that they read", async () => {
  const net = model({
    inputs: ["x: float [N, 4, 8, 8]"],
    outputs: ["y: float [N, 3]", "t: float [N, 2, 8, 8]"],
    nodes: [
      node("Conv x w b -> c", [
        intListAttribute("strides", [2, 2]),
        intListAttribute("pads", [1, 1, 1, 1]),
      ]),
      node("Conv c d -> e", [makeIntAttribute("group", 6), intListAttribute("pads", [1, 1, 1, 1])]),
      node("Reshape e s -> f"),
      node("Gemm f g h -> i"),
      node("MatMul i k -> y"),
      node("ConvTranspose c u -> t", [intListAttribute("strides", [2, 2])]),
      node("Relu t -> r"),
    ],
    constants: [
      ones("w", [6, 4, 3, 3]),
      ones("b", [6]),
      ones("d", [6, 1, 3, 3]),
      int64Tensor("s", [0, -1]),
      floatTensor("g", Array<number>(960).fill(0), [96, 10]),
      ones("h", [10]),
      ones("k", [10, 3]),
      ones("u", [6, 2, 2, 2]),
    ],
  });
  const layers = computeLayerCosts(net, await measureModelShapes(net));
  expect(layers).toEqual([
    {
      layer: "make_c",
      op: "Conv",
      parameters: 222,
      bytes: 888,
      zeros: 0,
      macs: 6 * 4 * 4 * (4 * 9),
    },
    { layer: "make_e", op: "Conv", parameters: 54, bytes: 216, zeros: 0, macs: 6 * 4 * 4 * 9 },
    { layer: "make_i", op: "Gemm", parameters: 970, bytes: 3880, zeros: 960, macs: 96 * 10 },
    { layer: "make_y", op: "MatMul", parameters: 30, bytes: 120, zeros: 0, macs: 30 },
    {
      layer: "make_t",
      op: "ConvTranspose",
      parameters: 48,
      bytes: 192,
      zeros: 0,
      macs: 6 * 4 * 4 * 2 * 4,
    },
  ]);
  expect(sumLayerCosts(layers)).toEqual({
    parameters: 1324,
    bytes: 5296,
    macs: 3456 + 864 + 960 + 30 + 768,
  });
});

it("counts a shared constant once, and reports unknown MACs as null", async () => {
  const net = model({
    inputs: ["x: float [3, 1, 4]"],
    outputs: ["y: float [3, 1, 1, 4]"],
    nodes: [
      node("MatMul x w -> h"),
      node("MatMul h w -> i"),
      node("LSTM i a r -> y", [makeIntAttribute("hidden_size", 4)]),
    ],
    constants: [ones("w", [4, 4]), ones("a", [1, 16, 4]), ones("r", [1, 16, 4])],
  });
  expect(computeLayerCosts(net, await measureModelShapes(net))).toMatchObject([
    { op: "MatMul", parameters: 16, macs: 48 },
    { op: "MatMul", parameters: 0, macs: 48 },
    { op: "LSTM", parameters: 128, macs: null },
  ]);
});

/** Source: Howard et al. 2017, table 4 states 569 million mult-adds and 4.2 million parameters. */
it("agrees with the paper of MobileNet on an INT8 graph", async () => {
  const net = parseModel(createMobileNet({ seed: 1, width: 1, resolution: 224, classes: 1000 }));
  const shapes = await measureShapes(runtime, net, {
    pixels: { datatype: "FP32", shape: [1, 3, 224, 224], data: new Float32Array(3 * 224 * 224) },
  });
  const { macs, parameters } = sumLayerCosts(computeLayerCosts(net, shapes));
  expect(macs / 1e6).toBeCloseTo(569, -0.5);
  expect(parameters / 1e6).toBeCloseTo(4.2, 0.5);
});
