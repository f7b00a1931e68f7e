// Early exits, from samples to a published model: heads are trained and evaluated in onnxruntime-node, for edge and region.
// A region then loads the exit tier's model and resumes from the activation.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createInProcessRegionClient } from "../../../src/region/drivers/in-process.ts";
import { publishModel } from "../../../src/registry/publish.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { imageClassificationTask } from "../../../src/tasks/image-classification.ts";
import { addExitTier } from "../../../src/toolchain/early-exit/add-exit-tier.ts";
import {
  selectBestCut,
  findTierCuts,
  type CreatedExits,
  type CreateExitsOptions,
  createExits,
  selectTierToCut,
} from "../../../src/toolchain/early-exit/create-exits.ts";
import { writeExitTier } from "../../../src/toolchain/early-exit/write-exit-tier.ts";
import type { LabeledSample } from "../../../src/toolchain/evaluate/labeled-samples.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import {
  requireClassification,
  createTierPreprocessor,
} from "../../../src/toolchain/evaluate/project-tier.ts";
import { readProject } from "../../../src/toolchain/project.ts";
import { createRegionFixture } from "../../region/region-fixture.ts";
import { IMAGE_LIMITS, sampleImage } from "../../support/sample-images.ts";
import { writeSampleProject } from "../../support/write-sample-project.ts";
import { untrainedVisionProject } from "./untrained-vision-project.ts";

const source = untrainedVisionProject();
const project = requireClassification(source.project);
const tier = selectTierToCut(project, undefined);
const sample = (name: Parameters<typeof sampleImage>[0], label: string): LabeledSample => ({
  input: imageClassificationTask.decodeInput(sampleImage(name).file, 0, IMAGE_LIMITS),
  label,
});
const samples = [
  sample("jpeg, red", "red"),
  sample("png, blue", "blue"),
  sample("png, grey", "green"),
  sample("png, black and white", "green"),
];

const runtime = createNativeRuntime({ intraOpThreads: 1 });
const runner = createNodeRunner();
const options: CreateExitsOptions = {
  runners: { edge: runner, region: runner },
  runtime,
  trainingSamples: samples,
  evaluationSamples: samples,
  training: { targets: "labels", seed: 1, epochs: 150, grid: 2, hidden: 8, temperature: 2 },
  maxLossPoints: 0,
};
const createTestExits = async (changes: Partial<CreateExitsOptions> = {}) => {
  const cuts = (await findTierCuts(source, project, tier, runtime, samples)).filter(({ value }) =>
    ["early", "late"].includes(value),
  );
  return await createExits(source, project, tier, cuts, { ...options, ...changes });
};

let exits: CreatedExits;
beforeAll(async () => {
  exits = await createTestExits();
}, 60_000);

describe("createExits", () => {
  it("trains a head at each cut, and compares it with the whole graph", () => {
    expect(exits.cuts.map(({ value }) => value)).toEqual(["early", "late"]);
    for (const { judgement } of exits.cuts) {
      expect(judgement.accuracy).toBe(1);
      expect(judgement.exact.largestDifference).toBeLessThan(1e-5);
      expect(judgement.resumed.largestDifference).toBeLessThan(0.1);
      expect(judgement.exit.coverage).toBe(1);
    }
  });

  it("sends the input if the activation is larger, and computes the work", () => {
    const [early, late] = exits.cuts;
    expect(early).toMatchObject({ bytesPerRow: 512, sends: "input" });
    // All samples exit, so that the work is that of the first stage.
    expect(early?.work).toBeCloseTo(early?.share ?? Number.NaN, 10);
    expect(selectBestCut(exits.cuts)).toBe(early);
    expect(late?.share).toBeGreaterThan(early?.share ?? 1);
  });

  it("gives the same heads for the same seed", async () => {
    const repeated = await createTestExits();
    expect(repeated.cuts.map(({ graphs }) => graphs.first)).toEqual(
      exits.cuts.map(({ graphs }) => graphs.first),
    );
  });

  it("trains on the whole graph's answers if they are the targets", async () => {
    const { cuts } = await createTestExits({
      training: { ...options.training, targets: "answers" },
    });
    expect(cuts[1]?.graphs.first).not.toEqual(exits.cuts[1]?.graphs.first);
  });
});

it("detects out-of-scope samples at the head if the whole graph does", async () => {
  const tierWithOutOfScope = {
    ...tier,
    calibration: {
      temperature: 1,
      outOfScope: { label: "oos", score: { kind: "energy" as const }, threshold: 0, scale: 1 },
    },
  };
  const { cuts } = await createExits(source, project, tierWithOutOfScope, exits.cuts.slice(0, 1), {
    ...options,
    evaluationSamples: [...samples, sample("png, palette", "oos")],
  });
  expect(cuts.map(({ judgement }) => judgement.calibration.outOfScope?.label)).toEqual(["oos"]);
  expect(exits.cuts[0]?.judgement.calibration.outOfScope).toBeUndefined();
});

const firstCut = () => exits.cuts[0] as CreatedExits["cuts"][number];

describe("a project with an exit tier", () => {
  it("is published, loaded by a region, and resumed there", async () => {
    const { project: changed, files } = addExitTier(project, tier, firstCut(), "edge-exit");
    expect(changed.tiers).toMatchObject([
      { id: "edge-exit", place: "edge", exit: { confidence: expect.any(Number) } },
      { id: "region", place: "region", exit: null, resumes: { tier: "edge-exit" } },
    ]);
    expect(changed.tiers[0]?.resumes).toBeUndefined();
    const region = createRegionFixture();
    await publishModel(region.store, {
      project: changed,
      files: new Map([...source.files, ...files]),
    });
    const client = createInProcessRegionClient(region.app.fetch);
    const call = { model: "net", version: 1, tier: "region", requestId: "r", timeoutMs: 10_000 };
    const file = sampleImage("jpeg, red").file;
    const whole = await client.infer({ ...call, inputs: [file] });
    const first = await runtime.createSession(firstCut().graphs.first);
    const { logits: _headLogits, ...tensors } = await first.run(
      createTierPreprocessor(source, project, tier).encode(
        samples.slice(0, 1).map(({ input }) => input),
      ),
    );
    const resumed = await client.resume({ ...call, tensors, rows: 1 });
    const logitsOf = (outputs: typeof whole) =>
      outputs["logits"]?.datatype === "FP32" ? [...outputs["logits"].data] : [];
    // The logits differ because the activation crosses in 8 bits.
    expect(logitsOf(resumed)).toEqual(
      logitsOf(whole).map((logit) => expect.closeTo(logit, 1) as number),
    );
    expect(logitsOf(whole)).toHaveLength(3);
  });

  it("does not have the whole graph's latency", () => {
    const slowTier = { ...tier, p95Ms: 12 };
    const { project: changed } = addExitTier(project, slowTier, firstCut(), "edge-exit");
    expect(changed.tiers[0]?.p95Ms).toBeUndefined();
  });
});

describe("writeExitTier", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "edgetier-exits-"));
    await writeSampleProject(folder, project, new Map(source.files));
    const path = join(folder, "model.json");
    const original = JSON.parse(await readFile(path, "utf8"));
    await writeFile(path, JSON.stringify({ ...original, description: "kept" }));
    await writeExitTier(folder, addExitTier(project, tier, firstCut(), "edge-exit"), "edge-exit");
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("adds the tier and keeps other contents of model.json", async () => {
    expect((await readProject(folder)).project).toMatchObject({
      description: "kept",
      tiers: [{ id: "edge-exit" }, { id: "region", resumes: { tier: "edge-exit" } }],
    });
  });

  it("replaces a tier with the same id", async () => {
    const written = requireClassification((await readProject(folder)).project);
    const secondCut = exits.cuts[1] ?? firstCut();
    await writeExitTier(
      folder,
      addExitTier(written, selectTierToCut(written, undefined), secondCut, "edge-exit"),
      "edge-exit",
    );
    const { tiers } = (await readProject(folder)).project;
    expect(tiers.map(({ id }) => id)).toEqual(["edge-exit", "region"]);
    expect(tiers[0]?.outputs.find(({ name }) => name === "activation")?.shape).toEqual(
      exits.cuts[1]?.shape,
    );
  });
});

it("rejects a tier of another place than a region", () => {
  expect(() => selectTierToCut(project, "edge")).toThrow(
    expect.objectContaining({ code: "no_such_tier" }),
  );
});
