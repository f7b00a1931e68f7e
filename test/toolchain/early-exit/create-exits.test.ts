// An exit from samples to a published model: heads are trained, judged in onnxruntime-node in both places, and a region loads
// and resumes what comes of it.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import {
  selectBestCut,
  findTierCuts,
  type CreatedExits,
  type CreateExitsOptions,
  createExits,
  selectTierToCut,
  addExitTier,
} from "../../../src/toolchain/early-exit/create-exits.ts";
import { writeExitTier } from "../../../src/toolchain/early-exit/write-exit-tier.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import {
  requireClassification,
  createTierPreprocessor,
} from "../../../src/toolchain/evaluate/project-tier.ts";
import type { LabeledSample } from "../../../src/toolchain/evaluate/labeled-samples.ts";
import { readProject } from "../../../src/toolchain/project.ts";
import { publishModel } from "../../../src/registry/publish.ts";
import { createInProcessRegionClient } from "../../../src/region/drivers/in-process.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { imageClassificationTask } from "../../../src/tasks/image-classification.ts";
import { createRegionFixture } from "../../region/region-fixture.ts";
import { writeSampleProject } from "../../support/write-sample-project.ts";
import { IMAGE_LIMITS, sampleImage } from "../../support/sample-images.ts";
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
const make = async (more: Partial<CreateExitsOptions> = {}) => {
  const places = (await findTierCuts(source, project, tier, runtime, samples)).filter(({ value }) =>
    ["early", "late"].includes(value),
  );
  return await createExits(source, project, tier, places, { ...options, ...more });
};

let made: CreatedExits;
beforeAll(async () => {
  made = await make();
}, 60_000);

describe("createExits", () => {
  it("trains a head at each cut, and judges it against the whole graph", () => {
    expect(made.cuts.map(({ value }) => value)).toEqual(["early", "late"]);
    for (const { judgement } of made.cuts) {
      expect(judgement.accuracy).toBe(1);
      expect(judgement.exact.largestDifference).toBeLessThan(1e-5);
      expect(judgement.resumed.largestDifference).toBeLessThan(0.1);
      expect(judgement.exit.coverage).toBe(1);
    }
  });

  it("sends the input where an activation is more, and counts the work", () => {
    const [early, late] = made.cuts;
    expect([early?.bytesPerRow, early?.sends]).toEqual([512, "input"]);
    expect(early?.work).toBeCloseTo(early?.share ?? Number.NaN, 10); // nothing is left to do
    expect(selectBestCut(made.cuts)).toBe(early);
    expect(late?.share).toBeGreaterThan(early?.share ?? 1);
  });

  it("gives the same heads for the same seed", async () => {
    const again = await make();
    expect(again.cuts.map(({ graphs }) => graphs.first)).toEqual(
      made.cuts.map(({ graphs }) => graphs.first),
    );
  });

  it("learns from the whole graph's answers where it is told to", async () => {
    const { cuts } = await make({ training: { ...options.training, targets: "answers" } });
    expect(cuts[1]?.graphs.first).not.toEqual(made.cuts[1]?.graphs.first);
  });
});

it("lets the head tell what is out of scope where the whole graph does", async () => {
  const strict = {
    ...tier,
    calibration: {
      temperature: 1,
      outOfScope: { label: "oos", score: { kind: "energy" as const }, threshold: 0, scale: 1 },
    },
  };
  const [place] = made.cuts;
  const { cuts } = await createExits(source, project, strict, place === undefined ? [] : [place], {
    ...options,
    evaluationSamples: [...samples, sample("png, palette", "oos")],
  });
  expect(cuts.map(({ judgement }) => judgement.calibration.outOfScope?.label)).toEqual(["oos"]);
  expect(made.cuts[0]?.judgement.calibration.outOfScope).toBeUndefined();
});

describe("the project with an exit", () => {
  const cut = () => made.cuts[0] as CreatedExits["cuts"][number];

  it("is published, loaded by a region, and resumed there", async () => {
    const { project: changed, files } = addExitTier(project, tier, cut(), "edge-exit");
    expect(
      changed.tiers.map(({ id, place, exit, resumes }) => [
        id,
        place,
        exit === null,
        resumes?.tier,
      ]),
    ).toEqual([
      ["edge-exit", "edge", false, undefined],
      ["region", "region", true, "edge-exit"],
    ]);
    const region = createRegionFixture();
    await publishModel(region.store, {
      project: changed,
      files: new Map([...source.files, ...files]),
    });
    const client = createInProcessRegionClient(region.app.fetch);
    const call = { model: "net", version: 1, tier: "region", requestId: "r", timeoutMs: 10_000 };
    const file = sampleImage("jpeg, red").file;
    const whole = await client.infer({ ...call, inputs: [file] });
    const first = await runtime.createSession(cut().graphs.first);
    const { logits: _ofTheHead, ...tensors } = await first.run(
      createTierPreprocessor(source, project, tier).encode(
        samples.slice(0, 1).map(({ input }) => input),
      ),
    );
    const resumed = await client.resume({ ...call, tensors, rows: 1 });
    const numbers = (tensors: typeof whole) =>
      tensors["logits"]?.datatype === "FP32" ? [...tensors["logits"].data] : [];
    numbers(resumed).forEach((value, index) =>
      expect(value).toBeCloseTo(numbers(whole)[index] ?? Number.NaN, 1),
    );
  });

  it("does not take over the whole graph's latency", () => {
    const { project: changed } = addExitTier(project, { ...tier, p95Ms: 12 }, cut(), "edge-exit");
    expect(changed.tiers[0]?.p95Ms).toBeUndefined();
  });

  it("is written to its folder, and made again in its place", async () => {
    const folder = await mkdtemp(join(tmpdir(), "edgetier-exits-"));
    try {
      await writeSampleProject(folder, project, new Map(source.files));
      const own = {
        ...JSON.parse(await readFile(join(folder, "model.json"), "utf8")),
        description: "kept",
      };
      await writeFile(join(folder, "model.json"), JSON.stringify(own));
      await writeExitTier(folder, addExitTier(project, tier, cut(), "edge-exit"), "edge-exit");
      const once = await readProject(folder);
      expect(once.project).toMatchObject({
        description: "kept",
        tiers: [{ id: "edge-exit" }, { id: "region", resumes: { tier: "edge-exit" } }],
      });
      const again = requireClassification(once.project);
      await writeExitTier(
        folder,
        addExitTier(again, selectTierToCut(again, undefined), made.cuts[1] ?? cut(), "edge-exit"),
        "edge-exit",
      );
      const twice = await readProject(folder);
      expect(twice.project.tiers.map(({ id }) => id)).toEqual(["edge-exit", "region"]);
      expect(
        twice.project.tiers[0]?.outputs.find(({ name }) => name === "activation")?.shape,
      ).toEqual(made.cuts[1]?.shape);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

it("refuses a tier that is none of a region's", () => {
  expect(() => selectTierToCut(project, "edge")).toThrow(
    expect.objectContaining({ code: "no_such_tier" }),
  );
});
