import { describe, expect, it } from "vitest";
import {
  listArtifacts,
  listFiles,
  manifestSchema,
  modelProjectSchema,
  type TensorManifest,
} from "../../src/registry/manifest.ts";
import {
  mergeServingConfigs,
  mapServingFiles,
  type ServingConfig,
} from "../../src/registry/serving-config.ts";
import { colorProject } from "../support/color-model.ts";
import { sampleManifest, sampleProject } from "../support/sample-model.ts";

const file = (digit: string) => ({ sha256: digit.repeat(64), size: 1 });

function tensorManifest(changes: object = {}): unknown {
  const tier = {
    id: "gpu",
    place: "region",
    precision: "fp32",
    graph: file("a"),
    inputs: [{ name: "x", datatype: "FP32", shape: [-1, 4] }],
    outputs: [{ name: "y", datatype: "FP32", shape: [-1, 4] }],
  };
  return {
    schemaVersion: 1,
    model: "plain",
    version: 1,
    task: "tensor",
    deadlineMs: 100,
    tiers: [{ ...tier, ...changes }],
  };
}

describe("a manifest of the task tensor", () => {
  it("needs no labels, no preprocessor, no calibration and no exit rule", () => {
    expect(manifestSchema.parse(tensorManifest())).toMatchObject({
      task: "tensor",
      tiers: [{ id: "gpu", figures: {} }],
    });
  });

  it.each(["preprocessor", "calibration", "exit"])("has no place for %s", (field) => {
    expect(
      manifestSchema.safeParse(tensorManifest({ [field]: null })).error?.issues[0]?.message,
    ).toContain(field);
  });

  it("has edge tiers before region tiers, and each id once", () => {
    const parsed = manifestSchema.parse(tensorManifest()) as TensorManifest;
    const [tier] = parsed.tiers;
    const problems = manifestSchema
      .safeParse({ ...parsed, tiers: [tier, { ...tier, place: "edge" }] })
      .error?.issues.map(({ message }) => message);
    expect(problems).toEqual([
      "tier ids must be unique",
      "edge tiers must come before region tiers",
    ]);
  });
});

it("text classification still needs them", () => {
  const { preprocessor: _preprocessor, ...tier } = sampleProject
    .tiers[0] as (typeof sampleProject.tiers)[number];
  expect(modelProjectSchema.safeParse({ ...sampleProject, tiers: [tier] }).success).toBe(false);
  expect(modelProjectSchema.safeParse(sampleProject).success).toBe(true);
});

describe("a calibration", () => {
  const [tier] = sampleProject.tiers;
  const read = (calibration: object) =>
    modelProjectSchema.safeParse({ ...sampleProject, tiers: [{ ...tier, calibration }] });

  it.each([
    ["a temperature alone", { temperature: 1.5 }],
    [
      "an out-of-scope rule without a temperature of its own, as older ones are",
      {
        temperature: 1.5,
        outOfScope: { label: "oos", score: { kind: "energy" }, threshold: 1, scale: 2 },
      },
    ],
    [
      "vectors, a map, and a rule with its temperature",
      {
        temperature: 1,
        vector: { weights: [1, 2], biases: [0, 0] },
        isotonic: { confidence: [0.1, 1], calibrated: [0.2, 0.2] },
        outOfScope: {
          label: "oos",
          score: { kind: "energy" },
          temperature: 2,
          threshold: 1,
          scale: 2,
        },
      },
    ],
  ])("may be %s", (_, calibration) => {
    expect(read(calibration).data?.tiers[0]).toMatchObject({ calibration });
  });

  it.each([
    [
      [0.5, 0.5],
      [0.1, 0.2],
    ],
    [
      [0.1, 0.5],
      [0.3, 0.2],
    ],
    [[0.1, 0.5], [0.3]],
  ])("has no isotonic map from %j to %j", (confidence, calibrated) => {
    expect(
      read({ temperature: 1, isotonic: { confidence, calibrated } }).error?.issues[0]?.message,
    ).toContain("must ascend");
  });
});

describe("a risk", () => {
  const risk = {
    what: "disagreement",
    epsilon: 0.01,
    delta: 0.05,
    method: "learn-then-test",
    samples: 2_170,
    empiricalRisk: 0.005,
  };

  it("is kept by projects and manifests of classification, and may be missing", () => {
    expect(modelProjectSchema.parse({ ...sampleProject, risk })).toMatchObject({ risk });
    expect(manifestSchema.parse({ ...sampleManifest(1), risk })).toMatchObject({ risk });
    expect(manifestSchema.parse(sampleManifest(1))).not.toHaveProperty("risk");
    expect(
      modelProjectSchema.safeParse({ ...sampleProject, risk: { ...risk, what: "ruin" } }).success,
    ).toBe(false);
  });
});

describe("a project of the task image-classification", () => {
  const { project, files } = colorProject();
  const problemsWith = (changes: object, tier: object = {}) =>
    modelProjectSchema
      .safeParse({
        ...project,
        ...changes,
        tiers: project.tiers.map((one) => ({ ...one, ...tier })),
      })
      .error?.issues.map(({ message }) => message) ?? [];

  it("has a preprocessor without a file, and limits of bytes and pixels", () => {
    expect(problemsWith({})).toEqual([]);
    expect(listFiles<string>(project)).toEqual(["labels.json", "graph.onnx", "graph.onnx"]);
    expect(new Set(listFiles<string>(project))).toEqual(new Set(files.keys()));
    for (const input of [
      { maxBytes: 100 },
      { maxBytes: 100, maxPixels: 0 },
      { maxBytes: 100, maxPixels: 2 ** 30 },
      { maxBytes: 2 ** 30, maxPixels: 100 },
    ])
      expect(problemsWith({ input })).not.toEqual([]);
  });

  it("takes from its preprocessor what its graph takes", () => {
    const wrong = [
      "tier edge: its one input must be pixels, FP32 [-1, 3, 8, 8]",
      "tier region: its one input must be pixels, FP32 [-1, 3, 8, 8]",
    ];
    const pixels = { name: "pixels", datatype: "FP32", shape: [-1, 3, 8, 8] };
    for (const inputs of [
      [{ ...pixels, name: "x" }],
      [{ ...pixels, shape: [-1, 8, 8, 3] }],
      [{ ...pixels, shape: [-1, 3, 8] }],
      [{ ...pixels, datatype: "UINT8" }],
      [pixels, { ...pixels, name: "mask" }],
    ]) {
      expect(problemsWith({}, { inputs })).toEqual(wrong);
    }
    expect(problemsWith({}, { inputs: [{ ...pixels, shape: [-1, 3, -1, -1] }] })).toEqual([]);
  });

  it("has no text's preprocessor, nor has a text an image's", () => {
    expect(
      problemsWith({}, { preprocessor: { kind: "hashed-ngrams", artifact: "labels.json" } }),
    ).not.toEqual([]);
    const [tier] = project.tiers;
    expect(modelProjectSchema.safeParse({ ...sampleProject, tiers: [tier] }).success).toBe(false);
  });
});

describe("serving configuration", () => {
  const warmup = [
    {
      name: "first",
      inputs: {
        x: { datatype: "FP32", shape: [4], data: { file: file("c") } },
        z: { datatype: "FP32", shape: [4], data: "random" },
      },
    },
  ];

  it("has its files among the artifacts of a version, with the FP16 graph", () => {
    const manifest = manifestSchema.parse(
      tensorManifest({ fp16Graph: file("b"), serving: { warmup } }),
    );
    expect(listArtifacts(manifest).map(({ sha256 }) => sha256[0])).toEqual(["a", "b", "c"]);
    expect(listArtifacts(sampleManifest(1))).toHaveLength(1);
    expect(listFiles<string>(sampleProject)).toEqual([
      "labels.json",
      "artifacts/student.onnx",
      "artifacts/student.ngrams",
    ]);
  });

  it("names its files anew where they get other names", () => {
    const serving: ServingConfig<string> = {
      instances: 2,
      warmup: [
        {
          name: "w",
          batchRows: [1, 8],
          count: 2,
          inputs: {
            x: { datatype: "FP32", shape: [4], data: { file: "x.bin" } },
            y: { datatype: "INT8", shape: [], data: "zero" },
          },
        },
      ],
    };
    expect(mapServingFiles(serving, (path) => `/${path}`)).toEqual({
      instances: 2,
      warmup: [
        {
          name: "w",
          batchRows: [1, 8],
          count: 2,
          inputs: {
            x: { datatype: "FP32", shape: [4], data: { file: "/x.bin" } },
            y: { datatype: "INT8", shape: [], data: "zero" },
          },
        },
      ],
    });
  });

  it("goes by the first that says something, field by field", () => {
    const merged = mergeServingConfigs<string>(
      { instances: 3, batching: { queue: { maxQueueSize: 5 } } },
      undefined,
      {
        instances: 1,
        intraOpThreads: 2,
        batching: { mode: "adaptive", queue: { maxQueueSize: 9, priorityLevels: 4 } },
      },
    );
    expect(merged).toEqual({
      instances: 3,
      intraOpThreads: 2,
      batching: { mode: "adaptive", queue: { maxQueueSize: 5, priorityLevels: 4 } },
    });
  });

  it.each([
    [{ instances: 0 }, "instances"],
    [{ executionProviders: [{ name: "rocm" }] }, "executionProviders"],
    [{ batching: { maxQueueDelayMs: 1 } }, "maxQueueDelayMs"],
  ])("refuses %j", (serving, where) => {
    expect(
      JSON.stringify(manifestSchema.safeParse(tensorManifest({ serving })).error?.issues),
    ).toContain(where);
  });
});
