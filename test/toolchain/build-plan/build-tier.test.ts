// A plan's candidates for a small convolutional classifier, made, judged in onnxruntime-node, and chosen among.
import { beforeAll, describe, expect, it } from "vitest";
import type { EncodedSample } from "../../../src/toolchain/evaluate/evaluation-set.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import { parseBuildPlan, type TierPlan } from "../../../src/toolchain/build-plan/build-plan.ts";
import { type BuiltTier, buildTier } from "../../../src/toolchain/build-plan/build-tier.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { createRandom } from "../../bench/lib/random.ts";
import { encodeModel, ints } from "../../bench/lib/onnx-writer.ts";

const SIDE = 6;
const CHANNELS = 32;
const { next } = createRandom(5);
const noise = (count: number) => Float32Array.from({ length: count }, () => 2 * next() - 1);

/** Convolution, ReLU, mean over the image, dense. */
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
const image = () => ({
  x: { datatype: "FP32" as const, shape: [1, 3, SIDE, SIDE], data: noise(3 * SIDE * SIDE) },
});

let questions: EncodedSample[];
let calibration: EncodedSample[];
beforeAll(async () => {
  const session = await createNodeRunner().open(graph);
  const labelled = async (): Promise<EncodedSample> => {
    const inputs = image();
    const logits = (await session.run(inputs))["logits"]?.data as Float32Array;
    return { inputs, label: logits.indexOf(Math.max(...logits)) };
  };
  questions = await Promise.all(Array.from({ length: 40 }, labelled));
  calibration = await Promise.all(Array.from({ length: 16 }, labelled));
});

function planOf(candidates: unknown[], changes: object = {}): TierPlan {
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
    "a test",
  );
  return tiers[0] as TierPlan;
}

const build = (plan: TierPlan): Promise<BuiltTier> =>
  buildTier(plan, (path) => (path === "fp32.onnx" ? graph : new Uint8Array()), {
    runner: createNodeRunner(),
    otherRunners: [],
    runtime: createNativeRuntime(),
    evaluationSet: questions,
    rangeSamples: calibration,
    rounds: 1,
  });

const STATIC = { do: "quantise", mode: "static", calibration: "minmax" };

describe("buildTier", () => {
  it("makes and judges what the plan names, in its order, and takes the smallest that holds the bounds", async () => {
    const { evaluations: judgements, chosen } = await build(
      planOf([
        { name: "optimised", steps: [{ do: "optimise" }] },
        { name: "int8", steps: [STATIC] },
        { name: "halved", steps: [{ do: "prune", method: "channel", ratio: 0.5 }, STATIC] },
      ]),
    );
    expect(judgements.map(({ name }) => name)).toEqual([
      "reference",
      "optimised",
      "int8",
      "halved",
    ]);
    expect(judgements[0]?.measured).toMatchObject({ accuracy: 1, lossPoints: 0 });
    expect(judgements[1]).toMatchObject({ refused: [], measured: { agreement: 1 } });
    expect(judgements[2]).toMatchObject({ refused: [] });
    expect(judgements[3]?.refused[0]).toMatch(/points, 10 are allowed$/); // random channels, all of which count
    expect(chosen.name).toBe("int8");
    expect(chosen.graph.byteLength).toBe(judgements[2]?.bytes);
    expect(judgements[2]?.bytes).toBeLessThan(judgements[0]?.bytes ?? 0);
  });

  it("prunes to a budget by what each part's pruning costs in accuracy", async () => {
    const { evaluations: judgements } = await build(
      planOf([
        { name: "sparse", steps: [{ do: "prune-to-budget", method: "magnitude", budget: 0.7 }] },
        { name: "narrow", steps: [{ do: "prune-to-budget", method: "channel", budget: 0.6 }] },
      ]),
    );
    const [reference, sparse, narrow] = judgements;
    expect(sparse?.bytes).toBe(reference?.bytes);
    expect(sparse?.gzipBytes).toBeLessThan(0.9 * (reference?.gzipBytes ?? 0));
    expect(narrow?.bytes).toBeLessThan(0.8 * (reference?.bytes ?? 0));
  });

  it("goes on after a candidate that cannot be made, and says why", async () => {
    const { evaluations: judgements, chosen } = await build(
      planOf([
        { name: "trained", source: "empty.onnx" },
        { name: "no-layer", steps: [{ ...STATIC, keep: ["Conv", "Gemm"] }] },
        { name: "same" },
      ]),
    );
    expect(judgements.map(({ refused }) => refused.length)).toEqual([0, 1, 1, 0]);
    expect(judgements[2]?.refused[0]).toMatch(/^it cannot be made: /);
    expect(chosen.name).toBe("same");
  });

  it("takes the reference where nothing holds the bounds", async () => {
    const { chosen, logits: answers } = await build(
      planOf([{ name: "same" }], { bounds: { maxBytes: 10 } }),
    );
    expect(chosen.name).toBe("reference");
    expect(answers).toHaveLength(questions.length);
  });

  it("keeps the layers that hurt most in FP32 until the bound holds", async () => {
    const strict = { ...STATIC, reduceRange: true, perChannel: false, keepUntilLossPoints: 0 };
    const { evaluations: judgements } = await build(
      planOf([
        { name: "whole", steps: [{ ...strict, keepUntilLossPoints: 100 }] },
        { name: "kept", steps: [strict] },
      ]),
    );
    const [, whole, kept] = judgements;
    expect(kept?.measured?.lossPoints).toBeLessThanOrEqual(
      whole?.measured?.lossPoints ?? Number.NaN,
    );
  });
});

describe("parseBuildPlan", () => {
  it.each([
    ["an unknown step", { candidates: [{ name: "a", steps: [{ do: "shrink" }] }] }, "steps"],
    ["two candidates of one name", { candidates: [{ name: "a" }, { name: "a" }] }, "unique"],
    ["a candidate called reference", { candidates: [{ name: "reference" }] }, "unique"],
    ["no candidate", { candidates: [] }, "candidates"],
    [
      "a ratio of 1",
      { candidates: [{ name: "a", steps: [{ do: "prune", method: "channel", ratio: 1 }] }] },
      "ratio",
    ],
  ])("refuses %s", (_, changes, problem) => {
    const json = { schemaVersion: 1, tiers: [{ tier: "t", source: "s", bounds: {}, ...changes }] };
    expect(() => parseBuildPlan(json, "build.json")).toThrow(new RegExp(problem));
  });
});
