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

  it.each(["preprocessor", "calibration", "exit"])("rejects the field %s", (field) => {
    expect(
      manifestSchema.safeParse(tensorManifest({ [field]: null })).error?.issues[0]?.message,
    ).toContain(field);
  });

  it("has edge tiers before region tiers, and unique ids", () => {
    const parsed = manifestSchema.parse(tensorManifest()) as TensorManifest;
    const [tier] = parsed.tiers;
    const problems = manifestSchema
      .safeParse({ ...parsed, tiers: [tier, { ...tier, place: "edge" }] })
      .error?.issues.map(({ message }) => message);
    expect(problems).toEqual([
      expect.stringContaining("unique"),
      expect.stringContaining("before region"),
    ]);
  });
});

it("text classification requires a preprocessor", () => {
  const { preprocessor: _preprocessor, ...tier } = sampleProject
    .tiers[0] as (typeof sampleProject.tiers)[number];
  expect(modelProjectSchema.safeParse({ ...sampleProject, tiers: [tier] }).success).toBe(false);
  expect(modelProjectSchema.safeParse(sampleProject).success).toBe(true);
});

describe("a calibration", () => {
  const [tier] = sampleProject.tiers;
  const parse = (calibration: object) =>
    modelProjectSchema.safeParse({ ...sampleProject, tiers: [{ ...tier, calibration }] });

  it.each([
    ["a temperature alone", { temperature: 1.5 }],
    [
      "an out-of-scope rule without its own temperature, as in older manifests",
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
    expect(parse(calibration).data?.tiers[0]).toMatchObject({ calibration });
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
      parse({ temperature: 1, isotonic: { confidence, calibrated } }).error?.issues[0]?.message,
    ).toContain("ascend");
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

  it("is optional in projects and manifests of classification", () => {
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
  const listProblems = (changes: object, tierChanges: object = {}) =>
    modelProjectSchema
      .safeParse({
        ...project,
        ...changes,
        tiers: project.tiers.map((tier) => ({ ...tier, ...tierChanges })),
      })
      .error?.issues.map(({ message }) => message) ?? [];

  it("has a preprocessor without a file, and limits of bytes and pixels", () => {
    expect(listProblems({})).toEqual([]);
    expect(listFiles<string>(project)).toEqual(["labels.json", "graph.onnx", "graph.onnx"]);
    expect(new Set(listFiles<string>(project))).toEqual(new Set(files.keys()));
    for (const input of [
      { maxBytes: 100 },
      { maxBytes: 100, maxPixels: 0 },
      { maxBytes: 100, maxPixels: 2 ** 30 },
      { maxBytes: 2 ** 30, maxPixels: 100 },
    ])
      expect(listProblems({ input })).not.toEqual([]);
  });

  it("has graph inputs that match its preprocessor", () => {
    const problems = [
      expect.stringMatching(/tier edge: .*\[-1, 3, 8, 8\]/),
      expect.stringMatching(/tier region: .*\[-1, 3, 8, 8\]/),
    ];
    const pixels = { name: "pixels", datatype: "FP32", shape: [-1, 3, 8, 8] };
    for (const inputs of [
      [{ ...pixels, name: "x" }],
      [{ ...pixels, shape: [-1, 8, 8, 3] }],
      [{ ...pixels, shape: [-1, 3, 8] }],
      [{ ...pixels, datatype: "UINT8" }],
      [pixels, { ...pixels, name: "mask" }],
    ]) {
      expect(listProblems({}, { inputs })).toEqual(problems);
    }
    expect(listProblems({}, { inputs: [{ ...pixels, shape: [-1, 3, -1, -1] }] })).toEqual([]);
  });

  it("rejects a text preprocessor, and a text project rejects an image preprocessor", () => {
    expect(
      listProblems({}, { preprocessor: { kind: "hashed-ngrams", artifact: "labels.json" } }),
    ).not.toEqual([]);
    const [tier] = project.tiers;
    expect(modelProjectSchema.safeParse({ ...sampleProject, tiers: [tier] }).success).toBe(false);
  });
});

describe("serving configuration in a manifest", () => {
  it("has its files among the artifacts of a version, with the FP16 graph", () => {
    const warmup = [
      {
        name: "first",
        inputs: {
          x: { datatype: "FP32", shape: [4], data: { file: file("c") } },
          z: { datatype: "FP32", shape: [4], data: "random" },
        },
      },
    ];
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

  it.each([
    [{ instances: 0 }, "instances"],
    [{ executionProviders: [{ name: "rocm" }] }, "executionProviders"],
    [{ batching: { maxQueueDelayMs: 1 } }, "maxQueueDelayMs"],
  ])("is rejected if it is %j", (serving, field) => {
    expect(
      JSON.stringify(manifestSchema.safeParse(tensorManifest({ serving })).error?.issues),
    ).toContain(field);
  });
});

describe("a serving configuration", () => {
  it("can convert its file references", () => {
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

  it("is merged field by field, so that the first defined value wins", () => {
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
});
