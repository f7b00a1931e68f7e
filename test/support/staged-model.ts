// Staged model: the color model (color-model.ts) with its graph cut in two. The edge answers with an exit head or sends 8-bit
// pixels or their means, from which the region resumes. It imports nothing from Node, because suites in workerd use it too.
import { modelProjectSchema } from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { publishModel, type PublishSource } from "../../src/registry/publish.ts";
import { encodeModel, int, type OnnxGraph } from "../bench/lib/onnx-writer.ts";
import { colorProject } from "./color-model.ts";

const SIDE = 8;
/** Range of pixel values: -1 to 1. */
const STEP = 1 / 127;
const GAIN = { datatype: "FP32", shape: [], data: Float32Array.of(8) } as const;
const SCALE = { datatype: "FP32", shape: [], data: Float32Array.of(STEP) } as const;
const ZERO = { datatype: "UINT8", shape: [], data: Uint8Array.of(128) } as const;
const LOGITS = { name: "logits", datatype: "FP32", shape: ["rows", 3] } as const;

export interface StagedModelOptions {
  readonly model?: string;
  /** Position of the cut: `means` sends 3 bytes per row, `pixels` 192. */
  readonly cutAt?: "means" | "pixels";
  readonly deadlineMs?: number;
  /** Gain of the graph that the region resumes; differs from the full graph's, to prove its use. */
  readonly suffixGain?: number;
}

const CUTS = {
  means: {
    value: "means",
    shape: ["rows", 3, 1, 1],
    rest: [{ op: "Flatten", inputs: ["value"], outputs: ["flat"] }],
  },
  pixels: {
    value: "pixels",
    shape: ["rows", 3, SIDE, SIDE],
    rest: [
      { op: "GlobalAveragePool", inputs: ["value"], outputs: ["means"] },
      { op: "Flatten", inputs: ["means"], outputs: ["flat"] },
    ],
  },
} as const;

function prefixGraph({ cutAt = "means" }: StagedModelOptions): OnnxGraph {
  const { value, shape } = CUTS[cutAt];
  return {
    name: "first",
    opset: 13,
    inputs: [{ name: "pixels", datatype: "FP32", shape: ["rows", 3, SIDE, SIDE] }],
    outputs: [LOGITS, { name: "activation", datatype: "UINT8", shape }],
    nodes: [
      { op: "GlobalAveragePool", inputs: ["pixels"], outputs: ["means"] },
      { op: "Flatten", inputs: ["means"], outputs: ["flat"], attributes: { axis: int(1) } },
      { op: "Mul", inputs: ["flat", "gain"], outputs: ["logits"] },
      { op: "QuantizeLinear", inputs: [value, "scale", "zero"], outputs: ["activation"] },
    ],
    initializers: { gain: GAIN, scale: SCALE, zero: ZERO },
  };
}

function suffixGraph({ cutAt = "means", suffixGain: restGain = 8 }: StagedModelOptions): OnnxGraph {
  const { shape, rest } = CUTS[cutAt];
  return {
    name: "rest",
    opset: 13,
    inputs: [{ name: "activation", datatype: "UINT8", shape }],
    outputs: [LOGITS],
    nodes: [
      { op: "DequantizeLinear", inputs: ["activation", "scale", "zero"], outputs: ["value"] },
      ...rest,
      { op: "Mul", inputs: ["flat", "gain"], outputs: ["logits"] },
    ],
    initializers: { gain: { ...GAIN, data: Float32Array.of(restGain) }, scale: SCALE, zero: ZERO },
  };
}

/** Tiers `edge` and `region`, like those that `edgetier model exits` creates. */
export function stagedProject(options: StagedModelOptions = {}): PublishSource {
  const { model = "staged", cutAt = "means", deadlineMs = 1_000 } = options;
  const { project, files } = colorProject({ model, deadlineMs });
  const activation = {
    name: "activation",
    datatype: "UINT8",
    shape: CUTS[cutAt].shape.map((size) => (typeof size === "number" ? size : -1)),
  };
  const tiers = project.tiers.map((tier) =>
    tier.place === "edge"
      ? { ...tier, graph: "first.onnx", outputs: [...tier.outputs, activation] }
      : { ...tier, resumes: { tier: "edge", graph: "rest.onnx", inputs: [activation] } },
  );
  return {
    project: modelProjectSchema.parse({ ...project, tiers }),
    files: new Map([
      ...files,
      ["first.onnx", encodeModel(prefixGraph(options))],
      ["rest.onnx", encodeModel(suffixGraph(options))],
    ]),
  };
}

/** Publishes the model; a new model gets version 1. */
export async function publishStagedModel(
  store: ModelStore,
  options: StagedModelOptions = {},
): Promise<void> {
  await publishModel(store, stagedProject(options));
}
