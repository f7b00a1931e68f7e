// Model configuration route: Triton's fields of a served model, and the `edgetier` part.
import { beforeEach, describe, expect, it } from "vitest";
import type { TensorManifest } from "../../src/registry/manifest.ts";
import {
  identityGraph,
  IDENTITY_DATATYPES,
  int8MatMulGraph,
  publishTensorModel,
} from "../support/tensor-model.ts";
import {
  createRegionFixture,
  readFixture,
  publishMoodModel,
  type RegionFixture,
  type RegionFixtureOptions,
} from "./region-fixture.ts";

let region: RegionFixture;
const startRegion = (options: RegionFixtureOptions = {}) => (region = createRegionFixture(options));
beforeEach(() => void startRegion());

async function readConfiguration(path: string) {
  const response = await region.app.request(path);
  expect(response.status).toBe(200);
  return await response.json();
}

async function publishMatMul(serving?: TensorManifest["tiers"][number]["serving"]): Promise<void> {
  const graph = int8MatMulGraph(await readFixture("int8-matmul.onnx"));
  await publishTensorModel(region.store, "matmul", graph, {
    places: ["region"],
    edit: (tier) => ({ ...tier, ...(serving === undefined ? {} : { serving }) }),
  });
}

const MATMUL_SERVING: TensorManifest["tiers"][number]["serving"] = {
  batching: {
    mode: "fixed",
    maxBatchRows: 16,
    preferredBatchRows: [4, 8],
    maxQueueDelayUs: 500,
    queue: {
      timeoutAction: "delay",
      defaultTimeoutUs: 2_000,
      allowTimeoutOverride: false,
      maxQueueSize: 64,
      priorityLevels: 2,
      defaultPriorityLevel: 1,
    },
  },
  graphOptimization: "extended",
  intraOpThreads: 1,
  warmup: [
    {
      name: "sizes",
      batchRows: [1, 4],
      count: 2,
      inputs: { x: { datatype: "UINT8", shape: [3], data: "random" } },
    },
    { name: "default", batchRows: 1, count: 1 },
  ],
};
const WARMUP_X = { data_type: "TYPE_UINT8", dims: [3], random_data: true };
const MATMUL_CONFIGURATION = {
  name: "matmul",
  platform: "onnxruntime_onnx",
  backend: "onnxruntime",
  version_policy: { all: {} },
  max_batch_size: 16,
  input: [{ name: "x", data_type: "TYPE_UINT8", dims: [3] }],
  output: [{ name: "y", data_type: "TYPE_INT32", dims: [2], label_filename: "" }],
  optimization: {
    graph: { level: 1 },
    execution_accelerators: { gpu_execution_accelerator: [], cpu_execution_accelerator: [] },
  },
  instance_group: [{ name: "matmul_region", kind: "KIND_CPU", count: 1, gpus: [] }],
  dynamic_batching: {
    preferred_batch_size: [4, 8],
    max_queue_delay_microseconds: 500,
    preserve_ordering: false,
    priority_levels: 2,
    default_priority_level: 1,
    default_queue_policy: {
      timeout_action: "DELAY",
      default_timeout_microseconds: 2_000,
      allow_timeout_override: false,
      max_queue_size: 64,
    },
    priority_queue_policy: {},
  },
  model_warmup: [
    { name: "sizes", batch_size: 1, count: 2, inputs: { x: WARMUP_X } },
    { name: "sizes", batch_size: 4, count: 2, inputs: { x: WARMUP_X } },
    { name: "default", batch_size: 1, count: 1, inputs: {} },
  ],
  parameters: { intra_op_thread_count: { string_value: "1" } },
};

describe("a model configuration", () => {
  it("has Triton's fields for inputs, outputs and serving", async () => {
    await publishMatMul(MATMUL_SERVING);
    const { edgetier: _own, ...config } = await readConfiguration("/v2/models/matmul/config");
    expect(config).toEqual(MATMUL_CONFIGURATION);
  });

  it("reports the provider of every tier, and why others were skipped", async () => {
    await publishMatMul({ executionProviders: [{ name: "cuda", deviceId: 0, precision: "fp32" }] });
    const { edgetier, instance_group, optimization } = await readConfiguration(
      "/v2/models/matmul/versions/1/config",
    );
    expect(edgetier).toEqual({
      version: 1,
      task: "tensor",
      deadlineMs: 1_000,
      bytes: expect.any(Number),
      tiers: [
        {
          id: "region",
          precision: "fp32",
          graphBytes: (await readFixture("int8-matmul.onnx")).byteLength,
          instances: 1,
          batching: "fixed",
          providers: [
            {
              name: "cuda",
              precision: "fp32",
              state: "skipped",
              reason: expect.stringMatching(/\S/),
            },
            expect.objectContaining({ name: "cpu", precision: "fp32", state: "used" }),
          ],
        },
      ],
    });
    expect(instance_group).toEqual([
      { name: "matmul_region", kind: "KIND_CPU", count: 1, gpus: [] },
    ]);
    expect(optimization.execution_accelerators.gpu_execution_accelerator).toEqual([
      { name: "cuda", parameters: { deviceId: "0", precision: "fp32" } },
    ]);
  });
});

describe("the batching, inputs and version policy of a model configuration", () => {
  it("have no batches for a graph with a fixed first dimension, and no batcher if batching is off", async () => {
    const graph = identityGraph(await readFixture("identity-all.onnx"));
    await publishTensorModel(
      region.store,
      "whole",
      { ...graph, inputs: graph.inputs.map((spec) => ({ ...spec, shape: [1] })) },
      { places: ["region"], edit: (tier) => ({ ...tier, serving: { batching: { mode: "off" } } }) },
    );
    await publishTensorModel(region.store, "alone", graph, {
      places: ["region"],
      edit: (tier) => ({ ...tier, serving: { batching: { mode: "off", maxBatchRows: 8 } } }),
    });
    const whole = await readConfiguration("/v2/models/whole/config");
    const alone = await readConfiguration("/v2/models/alone/config");
    expect({
      maxBatchSize: whole.max_batch_size,
      inputDims: whole.input[0].dims,
      outputDims: whole.output[0].dims,
    }).toEqual({ maxBatchSize: 0, inputDims: [1], outputDims: [-1] });
    expect({
      maxBatchSize: alone.max_batch_size,
      inputDims: alone.input[0].dims,
      hasBatcher: "dynamic_batching" in alone,
    }).toEqual({ maxBatchSize: 8, inputDims: [], hasBatcher: false });
    expect(alone.input.map((input: { data_type: string }) => input.data_type)).toEqual(
      IDENTITY_DATATYPES.map((datatype) => `TYPE_${datatype}`),
    );
  });

  it("describe the task input, and all tiers", async () => {
    await publishMoodModel(region.store, {
      tiers: { light: "bag-of-tokens.onnx", heavy: "bag-of-tokens.onnx" },
    });
    const config = await readConfiguration("/v2/models/mood/versions/1/config");
    expect(config.input).toEqual([{ name: "input", data_type: "TYPE_STRING", dims: [] }]);
    expect(config.edgetier.tiers.map(({ id }: { id: string }) => id)).toEqual(["light", "heavy"]);
    expect(config.instance_group[0].name).toBe("mood_heavy");
  });

  it.each([
    ["all", { all: {} }],
    [{ latest: 2 }, { latest: { num_versions: 2 } }],
    [{ specific: [1, 3] }, { specific: { versions: [1, 3] } }],
  ] as const)("contain the version policy of the region: %j", async (versions, expected) => {
    startRegion({ operatorConfig: { allModels: { serving: {}, versionPolicy: versions } } });
    await publishMatMul();
    expect((await readConfiguration("/v2/models/matmul/config")).version_policy).toEqual(expected);
  });
});
