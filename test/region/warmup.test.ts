import { describe, expect, it } from "vitest";
import type * as z from "zod";
// Warm-up: runs of every session instance before its model is ready.
// The table of faulty entries makes the file long.
import { coreErrors } from "../../src/core/common-errors.ts";
import type { Datatype, NamedTensors } from "../../src/core/tensor.ts";
import type { OperatorConfig } from "../../src/region/server/operator-config.ts";
import { artifactRefSchema, type ArtifactRef } from "../../src/registry/manifest.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import { servingConfigSchema } from "../../src/registry/serving-config.ts";
import {
  IDENTITY_DATATYPES,
  identityGraph,
  int8MatMulGraph,
  publishTensorModel,
  stringIdentityGraph,
  type TensorGraph,
} from "../support/tensor-model.ts";
import {
  createCountingRuntime,
  createRegionFixture,
  readFixture,
  publishMoodModel,
  type RegionFixture,
} from "./region-fixture.ts";

type WarmupList = z.input<
  ReturnType<typeof servingConfigSchema<typeof artifactRefSchema>>
>["warmup"];

async function publishPlainModel(
  region: RegionFixture,
  graph: TensorGraph,
  warmup: WarmupList,
): Promise<void> {
  await publishTensorModel(region.store, "plain", graph, {
    places: ["region"],
    edit: (tier) => ({
      ...tier,
      serving: servingConfigSchema(artifactRefSchema).parse({ warmup }),
    }),
  });
}

/** Region that records the inputs of its session runs. */
function createRecordingRegion(config: Partial<OperatorConfig> = {}) {
  const runs: NamedTensors[] = [];
  return {
    runs,
    region: createRegionFixture({
      runtime: createCountingRuntime((inputs) => runs.push(inputs)).runtime,
      operatorConfig: config,
    }),
  };
}

/** Loads a plain graph with a warm-up list. @returns the inputs of its runs */
async function loadAndRecordRuns(
  graph: TensorGraph,
  warmup: WarmupList,
): Promise<readonly NamedTensors[]> {
  const { region, runs } = createRecordingRegion();
  await publishPlainModel(region, graph, warmup);
  await getModel(region, "plain");
  return runs;
}

const getModel = (region: RegionFixture, model: string) =>
  region.repository.getModel(parseModelRef(model));
const readMatMul = async () => int8MatMulGraph(await readFixture("int8-matmul.onnx"));

describe("a warm-up list", () => {
  it("defaults to one run: with zeros for a plain graph, with the example for a task", async () => {
    expect(await loadAndRecordRuns(await readMatMul(), undefined)).toEqual([
      { x: { datatype: "UINT8", shape: [1, 3], data: new Uint8Array(3) } },
    ]);
    expect(await loadAndRecordRuns(await readMatMul(), [])).toHaveLength(1);
    const { region, runs } = createRecordingRegion();
    await publishMoodModel(region.store);
    await getModel(region, "mood@1");
    expect(runs).toEqual([
      {
        input_ids: expect.objectContaining({ datatype: "INT64" }),
        attention_mask: expect.objectContaining({ shape: [1, runs[0]?.["input_ids"]?.shape[1]] }),
      },
    ]);
  });

  it("runs every batch size of every entry the configured number of times, in order", async () => {
    const runs = await loadAndRecordRuns(await readMatMul(), [
      { name: "small", batchRows: [1, 2], count: 2 },
      { name: "large", batchRows: 8 },
    ]);
    expect(runs.map(({ x }) => x?.shape)).toEqual([
      [1, 3],
      [1, 3],
      [2, 3],
      [2, 3],
      [8, 3],
    ]);
  });

  it("repeats the task example for each row", async () => {
    const { region, runs } = createRecordingRegion();
    await publishMoodModel(region.store, {
      edit: (tier) => void (tier.serving = { warmup: [{ name: "batch", batchRows: 4, count: 1 }] }),
    });
    await getModel(region, "mood@1");
    expect(runs.map((inputs) => inputs["input_ids"]?.shape[0])).toEqual([4]);
  });

  it("uses zeros, or reproducible random numbers", async () => {
    const entry = (name: string, data: "zero" | "random") => ({
      name,
      batchRows: 2,
      inputs: { x: { datatype: "UINT8" as const, shape: [3], data } },
    });
    const [zero, random, again] = (
      await loadAndRecordRuns(await readMatMul(), [
        entry("a", "zero"),
        entry("b", "random"),
        entry("c", "random"),
      ])
    ).map(({ x }) => x?.data);
    expect(zero).toEqual(new Uint8Array(6));
    expect(new Set(random as Uint8Array).size).toBeGreaterThan(3);
    expect(again).toEqual(random);
  });
});

describe("the warm-up data", () => {
  it("comes from files of the version in the store, and of the operator", async () => {
    const { ref: operatorFile } = await createRegionFixture().store.writeArtifact(
      Uint8Array.of(7, 8, 9),
    );
    const { region, runs } = createRecordingRegion({
      warmupFiles: new Map([[operatorFile.sha256, Uint8Array.of(7, 8, 9)]]),
    });
    const { ref: versionFile } = await region.store.writeArtifact(Uint8Array.of(1, 2, 3));
    const entry = (name: string, file: ArtifactRef) => ({
      name,
      batchRows: 2,
      inputs: { x: { datatype: "UINT8" as const, shape: [3], data: { file } } },
    });
    await publishPlainModel(region, await readMatMul(), [
      entry("version", versionFile),
      entry("operator", operatorFile),
    ]);
    await getModel(region, "plain");
    expect(runs.map(({ x }) => x?.data)).toEqual([
      Uint8Array.of(1, 2, 3, 1, 2, 3),
      Uint8Array.of(7, 8, 9, 7, 8, 9),
    ]);
  });

  it("supports every datatype, including strings", async () => {
    const inputs = Object.fromEntries(
      IDENTITY_DATATYPES.map((datatype) => [
        `${datatype.toLowerCase()}_in`,
        { datatype, shape: [], data: "random" as const },
      ]),
    );
    const [random] = await loadAndRecordRuns(
      identityGraph(await readFixture("identity-all.onnx")),
      [{ name: "random", batchRows: 100, inputs }],
    );
    for (const tensor of Object.values(random ?? {})) {
      expect(tensor.shape).toEqual([100]);
      expect(new Set(tensor.data as Iterable<unknown>).size).toBeGreaterThan(1);
    }
    const entry = (name: string, data: "zero" | "random") => ({
      name,
      batchRows: 2,
      inputs: { x: { datatype: "BYTES" as const, shape: [], data } },
    });
    const texts = await loadAndRecordRuns(
      stringIdentityGraph(await readFixture("string-identity.onnx")),
      [entry("empty", "zero"), entry("random", "random")],
    );
    expect(
      texts.map(
        ({ x }) => new Set([...((x?.data ?? []) as readonly Uint8Array[])].map(String)).size,
      ),
    ).toEqual([1, 2]);
  });
});

describe("the shape of warm-up inputs", () => {
  it("includes inputs that an entry omits, filled with zeros", async () => {
    const [run] = await loadAndRecordRuns(identityGraph(await readFixture("identity-all.onnx")), [
      {
        name: "one",
        batchRows: 2,
        inputs: { int8_in: { datatype: "INT8", shape: [], data: "random" } },
      },
    ]);
    expect(run?.["fp32_in"]).toEqual({ datatype: "FP32", shape: [2], data: new Float32Array(2) });
  });

  it("is that of the graph if the graph has no batch dimension", async () => {
    const [run] = await loadAndRecordRuns(
      stringIdentityGraph(await readFixture("string-identity.onnx")),
      [
        {
          name: "whole",
          batchRows: 5,
          inputs: { x: { datatype: "BYTES", shape: [3], data: "zero" } },
        },
      ],
    );
    expect(run?.["x"]?.shape).toEqual([3]);
  });
});

describe("the warm-up of several instances", () => {
  it("runs on every instance before the first of them serves", async () => {
    const { counts, runtime } = createCountingRuntime();
    const region = createRegionFixture({ runtime, operatorConfig: { defaults: { instances: 3 } } });
    await publishPlainModel(region, await readMatMul(), [
      { name: "both", batchRows: [1, 8], count: 2 },
    ]);
    const model = await getModel(region, "plain");
    expect(counts).toEqual({ sessions: 3, runs: 12, disposed: 0 });
    expect(model.tiers[0].session.concurrency).toBe(3);
    expect(model.memoryBytes).toBe(3 * model.tiers[0].manifest.graph.size);
    await region.repository.dispose();
    expect(counts.disposed).toBe(3);
  });

  it("disposes of every instance if one run fails", async () => {
    const { counts, runtime } = createCountingRuntime(() => {
      if (counts.runs === 2) throw coreErrors.sessionFailed("no memory");
    });
    const region = createRegionFixture({ runtime, operatorConfig: { defaults: { instances: 3 } } });
    await publishPlainModel(region, await readMatMul(), undefined);
    await expect(getModel(region, "plain")).rejects.toMatchObject({
      code: "warmup_failed",
      detail: expect.stringContaining("no memory"),
    });
    expect(counts).toEqual({ sessions: 3, runs: 2, disposed: 3 });
  });
});

const TWO_BYTES: ArtifactRef = { sha256: "2".repeat(64), size: 2 };

const input = (shape: number[], datatype: Datatype = "UINT8") => ({
  datatype,
  shape,
  data: "zero" as const,
});

const faultyEntries: [title: string, entry: NonNullable<WarmupList>[number], detail: RegExp][] = [
  [
    "an input that the graph lacks",
    { name: "odd", inputs: { z: input([3]) } },
    /"odd, 1 row".*\bregion\b.*\bz\b/,
  ],
  [
    "another datatype",
    { name: "typed", batchRows: 2, inputs: { x: input([3], "INT8") } },
    /"typed, 2 rows" .*INT8/,
  ],
  ["another shape", { name: "shaped", inputs: { x: input([4]) } }, /"shaped, 1 row" .*\[1, 4\]/],
  ["a huge shape", { name: "huge", inputs: { x: input([65_536, 65_536]) } }, /"huge, 1 row"/],
  [
    "a file that is too short",
    { name: "short", inputs: { x: { ...input([3]), data: { file: TWO_BYTES } } } },
    /"short, 1 row" .*(2 bytes|got 2)/,
  ],
];

describe("a warm-up that fails", () => {
  it.each(faultyEntries)(
    "for %s fails the load with the name of the run, and disposes of the sessions",
    async (_title, entry, detail) => {
      const { runtime, counts } = createCountingRuntime();
      const region = createRegionFixture({
        runtime,
        operatorConfig: { warmupFiles: new Map([[TWO_BYTES.sha256, Uint8Array.of(1, 2)]]) },
      });
      await publishPlainModel(region, await readMatMul(), [entry]);
      await expect(getModel(region, "plain")).rejects.toMatchObject({
        code: "warmup_failed",
        status: 503,
        detail: expect.stringMatching(detail),
      });
      expect(counts.disposed).toBe(counts.sessions);
      expect((await region.repository.listIndex())[0]).toMatchObject({
        state: "UNAVAILABLE",
        reason: expect.stringMatching(detail),
      });
    },
  );

  it("in ONNX Runtime fails the load with the name of the run", async () => {
    const region = createRegionFixture();
    const bytes = await readFixture("fails-when-run.onnx");
    await publishTensorModel(
      region.store,
      "plain",
      {
        bytes,
        inputs: [{ name: "x", datatype: "FP32", shape: [-1] }],
        outputs: [{ name: "y", datatype: "FP32", shape: [-1] }],
      },
      { places: ["region"] },
    );
    await expect(getModel(region, "plain")).rejects.toMatchObject({
      code: "warmup_failed",
      detail: expect.stringMatching(/"default, 1 row".*ONNX Runtime/),
    });
  });
});
