// Color model: two tiers that classify an image's dominant channel: confident on a plain color, not on a gray
// one. It imports nothing from Node, because suites in workerd use it too.
import { modelProjectSchema } from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { publishModel, type PublishSource } from "../../src/registry/publish.ts";
import { encodeModel } from "../bench/lib/onnx-writer.ts";

export const COLORS = ["red", "green", "blue"] as const;
export const MAX_IMAGE_BYTES = 20_000;
export const MAX_PIXELS = 10_000;
const SIDE = 8;
const GAIN = 8;

/** logits = 8 * the mean of each channel, which is from -1 to 1. */
function graph(): Uint8Array {
  return encodeModel({
    name: "colours",
    opset: 13,
    inputs: [{ name: "pixels", datatype: "FP32", shape: ["rows", 3, SIDE, SIDE] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: ["rows", 3] }],
    nodes: [
      { op: "GlobalAveragePool", inputs: ["pixels"], outputs: ["means"] },
      { op: "Flatten", inputs: ["means"], outputs: ["flat"] },
      { op: "Mul", inputs: ["flat", "gain"], outputs: ["logits"] },
    ],
    initializers: { gain: { datatype: "FP32", shape: [], data: Float32Array.of(GAIN) } },
  });
}

export interface ColorModelOptions {
  readonly model?: string;
  readonly places?: readonly ("edge" | "region")[];
  readonly deadlineMs?: number;
}

/** As it is read from its folder; tiers are called like their places. */
export function colorProject({
  model = "colours",
  places = ["edge", "region"],
  deadlineMs = 1_000,
}: ColorModelOptions = {}): PublishSource {
  const tiers = places.map((place, index) => ({
    id: place,
    place,
    precision: "fp32",
    graph: "graph.onnx",
    preprocessor: {
      kind: "image",
      width: SIDE,
      height: SIDE,
      layout: "NCHW",
      channels: "RGB",
      resize: "bilinear",
      fit: "stretch",
      mean: [0.5, 0.5, 0.5],
      std: [0.5, 0.5, 0.5],
    },
    inputs: [{ name: "pixels", datatype: "FP32", shape: [-1, 3, SIDE, SIDE] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: [-1, 3] }],
    calibration: { temperature: 1 },
    exit: index === places.length - 1 ? null : { confidence: 0.9 },
  }));
  const input = { maxBytes: MAX_IMAGE_BYTES, maxPixels: MAX_PIXELS };
  const project = modelProjectSchema.parse({
    schemaVersion: 1,
    model,
    task: "image-classification",
    labels: "labels.json",
    input,
    deadlineMs,
    tiers,
  });
  return {
    project,
    files: new Map([
      ["graph.onnx", graph()],
      ["labels.json", new TextEncoder().encode(JSON.stringify(COLORS))],
    ]),
  };
}

/** Puts it into the store, as version 1 where it is new. */
export async function publishColorModel(
  store: ModelStore,
  options: ColorModelOptions = {},
): Promise<void> {
  await publishModel(store, colorProject(options));
}
