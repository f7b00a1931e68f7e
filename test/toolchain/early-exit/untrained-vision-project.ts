// A project with a region tier alone: a network of two convolutions that knows nothing, so that what a head learns is its own.
import type { PublishSource } from "../../../src/registry/publish.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { encodeModel, ints } from "../../bench/lib/onnx-writer.ts";
import { colorProject } from "../../support/color-model.ts";

/** It narrows behind each convolution: `early`, and `late`. */
export function untrainedVisionProject(): PublishSource {
  const next = seededRandom(7);
  const random = (...shape: readonly number[]) => ({
    datatype: "FP32" as const,
    shape,
    data: Float32Array.from(
      { length: shape.reduce((product, size) => product * size, 1) },
      () => next() - 0.5,
    ),
  });
  const same = { pads: ints([1, 1, 1, 1]) };
  const graph = encodeModel({
    name: "net",
    opset: 17,
    inputs: [{ name: "pixels", datatype: "FP32", shape: ["rows", 3, 8, 8] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: ["rows", 3] }],
    nodes: [
      { op: "Conv", inputs: ["pixels", "w0"], outputs: ["c0"], attributes: same },
      { op: "Relu", inputs: ["c0"], outputs: ["early"] },
      { op: "Conv", inputs: ["early", "w1"], outputs: ["c1"], attributes: same },
      { op: "Relu", inputs: ["c1"], outputs: ["late"] },
      { op: "GlobalAveragePool", inputs: ["late"], outputs: ["means"] },
      { op: "Flatten", inputs: ["means"], outputs: ["flat"] },
      { op: "MatMul", inputs: ["flat", "w2"], outputs: ["logits"] },
    ],
    initializers: { w0: random(8, 3, 3, 3), w1: random(8, 8, 3, 3), w2: random(8, 3) },
  });
  const { project, files } = colorProject({
    model: "net",
    places: ["region"],
    deadlineMs: 10_000,
  });
  return { project, files: new Map([...files, ["graph.onnx", graph]]) };
}
