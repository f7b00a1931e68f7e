// Builds a tier of a small convolutional classifier: candidates are made, evaluated in
// onnxruntime-node and compared.
import { beforeAll, describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { parseBuildPlan, type TierPlan } from "../../../src/toolchain/build-plan/build-plan.ts";
import { type BuiltTier, buildTier } from "../../../src/toolchain/build-plan/build-tier.ts";
import type { EncodedSample } from "../../../src/toolchain/evaluate/evaluation-set.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import { encodeModel, ints } from "../../bench/lib/onnx-writer.ts";
import { createRandom } from "../../bench/lib/random.ts";

const SIDE = 6;
const CHANNELS = 32;
const { next } = createRandom(5);
const noise = (count: number) => Float32Array.from({ length: count }, () => 2 * next() - 1);

/** A convolution with ReLU, global average pooling, and a dense layer. */
const graph = encodeModel({
  name: "small",
  opset: 17,
  inputs: [{ name: "x", datatype: "FP32", shape: ["batch", 3, SIDE, SIDE] }],
  outputs: [{ name: "logits", datatype: "FP32", shape: ["batch", 4] }],
  nodes: [
    {
      op: "Conv",
      inputs: ["x", "w", "b"],
      outputs: ["y"],
      attributes: { kernel_shape: ints([3, 3]), pads: ints([1, 1, 1, 1]) },
    },
    { op: "Relu", inputs: ["y"], outputs: ["z"] },
    { op: "GlobalAveragePool", inputs: ["z"], outputs: ["p"] },
    { op: "Flatten", inputs: ["p"], outputs: ["f"] },
    { op: "Gemm", inputs: ["f", "v", "c"], outputs: ["logits"] },
  ],
  initializers: {
    w: { datatype: "FP32", shape: [CHANNELS, 3, 3, 3], data: noise(CHANNELS * 27) },
    b: { datatype: "FP32", shape: [CHANNELS], data: noise(CHANNELS) },
    v: { datatype: "FP32", shape: [CHANNELS, 4], data: noise(CHANNELS * 4) },
    c: { datatype: "FP32", shape: [4], data: noise(4) },
  },
});
const createImage = () => ({
  x: { datatype: "FP32" as const, shape: [1, 3, SIDE, SIDE], data: noise(3 * SIDE * SIDE) },
});

let evaluationSet: EncodedSample[];
let rangeSamples: EncodedSample[];
beforeAll(async () => {
  const session = await createNodeRunner().open(graph);
  const createLabeledImage = async (): Promise<EncodedSample> => {
    const inputs = createImage();
    const logits = (await session.run(inputs))["logits"]?.data as Float32Array;
    return { inputs, label: logits.indexOf(Math.max(...logits)) };
  };
  evaluationSet = await Promise.all(Array.from({ length: 40 }, createLabeledImage));
  rangeSamples = await Promise.all(Array.from({ length: 16 }, createLabeledImage));
});

function createPlan(candidates: unknown[], changes: object = {}): TierPlan {
  const { tiers } = parseBuildPlan(
    {
      schemaVersion: 1,
      tiers: [
        {
          tier: "t",
          source: "fp32.onnx",
          bounds: { maxLossPoints: 10 },
          prefer: "bytes",
          candidates,
          ...changes,
        },
      ],
    },
    "build.json",
  );
  return tiers[0] as TierPlan;
}

const build = (plan: TierPlan): Promise<BuiltTier> =>
  buildTier(plan, (path) => (path === "fp32.onnx" ? graph : new Uint8Array()), {
    runner: createNodeRunner(),
    otherRunners: [],
    runtime: createNativeRuntime(),
    evaluationSet,
    rangeSamples,
    rounds: 1,
  });

const STATIC_INT8 = { kind: "quantize", mode: "static", rangeMethod: "minmax" };

describe("buildTier", () => {
  it("evaluates the candidates in the plan's order and chooses the smallest within the bounds", async () => {
    const { evaluations, chosen } = await build(
      createPlan([
        { name: "optimized", steps: [{ kind: "optimize" }] },
        { name: "int8", steps: [STATIC_INT8] },
        { name: "halved", steps: [{ kind: "prune", method: "channel", ratio: 0.5 }, STATIC_INT8] },
      ]),
    );
    expect(evaluations).toMatchObject([
      { name: "reference", measured: { accuracy: 1, lossPoints: 0 } },
      { name: "optimized", refused: [], measured: { agreement: 1 } },
      { name: "int8", refused: [] },
      // The channels are random, so that all of them count.
      { name: "halved", refused: [expect.stringMatching(/\b10\b/)] },
    ]);
    const [reference, , int8, halved] = evaluations;
    expect(halved?.measured?.lossPoints).toBeGreaterThan(10);
    expect(chosen).toMatchObject({ name: "int8", graph: { byteLength: int8?.bytes } });
    expect(int8?.bytes).toBeLessThan(reference?.bytes ?? 0);
  });

  it("prunes to a budget by the accuracy that pruning each part costs", async () => {
    const { evaluations } = await build(
      createPlan([
        { name: "sparse", steps: [{ kind: "prune-to-budget", method: "magnitude", budget: 0.7 }] },
        { name: "narrow", steps: [{ kind: "prune-to-budget", method: "channel", budget: 0.6 }] },
      ]),
    );
    const [reference, sparse, narrow] = evaluations;
    expect(sparse?.bytes).toBe(reference?.bytes);
    expect(sparse?.gzipBytes).toBeLessThan(0.9 * (reference?.gzipBytes ?? 0));
    expect(narrow?.bytes).toBeLessThan(0.8 * (reference?.bytes ?? 0));
  });
});

describe("buildTier with candidates that fail", () => {
  it("continues after a candidate that cannot be made and reports the reason", async () => {
    const { evaluations, chosen } = await build(
      createPlan([
        { name: "trained", source: "empty.onnx" },
        { name: "no-layer", steps: [{ ...STATIC_INT8, keep: ["Conv", "Gemm"] }] },
        { name: "same" },
      ]),
    );
    expect(evaluations).toMatchObject([
      { name: "reference", refused: [] },
      { name: "trained", refused: [expect.any(String)] },
      { name: "no-layer", bytes: 0, gzipBytes: 0, refused: [expect.any(String)] },
      { name: "same", refused: [] },
    ]);
    // A candidate that was never made has no measurement.
    expect(evaluations[2]).not.toHaveProperty("measured");
    expect(chosen.name).toBe("same");
  });

  it("chooses the reference if no candidate is within the bounds", async () => {
    const { chosen, logits } = await build(
      createPlan([{ name: "same" }], { bounds: { maxBytes: 10 } }),
    );
    expect(chosen.name).toBe("reference");
    expect(logits).toHaveLength(evaluationSet.length);
  });
});

describe("a step with keepUntilLossPoints", () => {
  it("keeps the most harmful layers in FP32 until the bound holds", async () => {
    const coarse = { ...STATIC_INT8, reduceRange: true, perChannel: false };
    const { evaluations } = await build(
      createPlan([
        { name: "all-int8", steps: [{ ...coarse, keepUntilLossPoints: 100 }] },
        { name: "kept", steps: [{ ...coarse, keepUntilLossPoints: 0 }] },
      ]),
    );
    const [, allInt8, kept] = evaluations;
    expect(kept?.measured?.lossPoints).toBeLessThanOrEqual(
      allInt8?.measured?.lossPoints ?? Number.NaN,
    );
  });
});
