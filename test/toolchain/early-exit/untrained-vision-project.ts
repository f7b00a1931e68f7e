// A test project with one region tier: an untrained network of two convolutions, so that only the head can learn.
import type { PublishSource } from "../../../src/registry/publish.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { encodeModel, ints } from "../../bench/lib/onnx-writer.ts";
import { colorProject } from "../../support/color-model.ts";

/** The graph can be cut after each convolution, at `early` and at `late`. */
export function untrainedVisionProject(): PublishSource {
  const draw = seededRandom(7);
  const random = (...shape: readonly number[]) => ({
    datatype: "FP32" as const,
    shape,
    data: Float32Array.from(
      { length: shape.reduce((product, size) => product * size, 1) },
      () => draw() - 0.5,
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
