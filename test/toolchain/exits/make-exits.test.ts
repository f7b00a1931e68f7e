// An exit from samples to a published model: heads are trained, judged in onnxruntime-node in both places, and a region loads
// and resumes what comes of it.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import {
  bestOf,
  cutsOf,
  type ExitsMade,
  type ExitsOptions,
  makeExits,
  tierToCut,
  withExit,
} from "../../../src/toolchain/exits/make-exits.ts";
import { writeExit } from "../../../src/toolchain/exits/write-exits.ts";
import { createNodeRunner } from "../../../src/toolchain/judge/node-runner.ts";
import { classificationOf, preprocessorOf } from "../../../src/toolchain/judge/project-tier.ts";
import type { Sample } from "../../../src/toolchain/judge/samples.ts";
import { readProject } from "../../../src/toolchain/project.ts";
import { publishModel } from "../../../src/registry/publish.ts";
import { createInProcessRegionClient } from "../../../src/region/drivers/in-process.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { imageClassification } from "../../../src/tasks/image-classification.ts";
import { createRegion } from "../../region/world.ts";
import { writeSampleProject } from "../../support/sample-folder.ts";
import { LIMITS, sampleImage } from "../../support/sample-images.ts";
import { imageNet } from "./image-net.ts";

const source = imageNet();
const project = classificationOf(source.project);
const tier = tierToCut(project, undefined);
const sample = (name: Parameters<typeof sampleImage>[0], label: string): Sample => ({
  input: imageClassification.fromBytes(sampleImage(name).file, 0, LIMITS),
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
const options: ExitsOptions = {
  runners: { edge: runner, region: runner },
  runtime,
  calibration: samples,
  samples,
  learning: { targets: "labels", seed: 1, epochs: 150, grid: 2, hidden: 8, temperature: 2 },
  maxLossPoints: 0,
};
const make = async (more: Partial<ExitsOptions> = {}) => {
  const places = (await cutsOf(source, project, tier, runtime, samples)).filter(({ value }) =>
    ["early", "late"].includes(value),
  );
  return await makeExits(source, project, tier, places, { ...options, ...more });
};

let made: ExitsMade;
beforeAll(async () => {
  made = await make();
}, 60_000);

describe("makeExits", () => {
  it("trains a head at each cut, and judges it against the whole graph", () => {
    expect(made.cuts.map(({ value }) => value)).toEqual(["early", "late"]);
    for (const { judgement } of made.cuts) {
      expect(judgement.accuracy).toBe(1);
      expect(judgement.exact.largestDifference).toBeLessThan(1e-5);
      expect(judgement.resumed.largestDifference).toBeLessThan(0.1);
      expect(judgement.exit.share).toBe(1);
    }
  });

  it("sends the input where an activation is more, and counts the work", () => {
    const [early, late] = made.cuts;
    expect([early?.bytesPerRow, early?.sends]).toEqual([512, "input"]);
    expect(early?.work).toBeCloseTo(early?.share ?? Number.NaN, 10); // nothing is left to do
    expect(bestOf(made.cuts)).toBe(early);
    expect(late?.share).toBeGreaterThan(early?.share ?? 1);
  });

  it("gives the same heads for the same seed", async () => {
    const again = await make();
    expect(again.cuts.map(({ graphs }) => graphs.first)).toEqual(
      made.cuts.map(({ graphs }) => graphs.first),
    );
  });

  it("learns from the whole graph's answers where it is told to", async () => {
    const { cuts } = await make({ learning: { ...options.learning, targets: "answers" } });
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
  const { cuts } = await makeExits(source, project, strict, place === undefined ? [] : [place], {
    ...options,
    samples: [...samples, sample("png, palette", "oos")],
  });
  expect(cuts.map(({ judgement }) => judgement.calibration.outOfScope?.label)).toEqual(["oos"]);
  expect(made.cuts[0]?.judgement.calibration.outOfScope).toBeUndefined();
});

describe("the project with an exit", () => {
  const cut = () => made.cuts[0] as ExitsMade["cuts"][number];

  it("is published, loaded by a region, and resumed there", async () => {
    const { project: changed, files } = withExit(project, tier, cut(), "edge-exit");
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
    const region = createRegion();
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
      preprocessorOf(source, project, tier).encode(samples.slice(0, 1).map(({ input }) => input)),
    );
    const resumed = await client.resume({ ...call, tensors, rows: 1 });
    const numbers = (tensors: typeof whole) =>
      tensors["logits"]?.datatype === "FP32" ? [...tensors["logits"].data] : [];
    numbers(resumed).forEach((value, index) =>
      expect(value).toBeCloseTo(numbers(whole)[index] ?? Number.NaN, 1),
    );
  });

  it("does not take over the whole graph's latency", () => {
    const { project: changed } = withExit(project, { ...tier, p95Ms: 12 }, cut(), "edge-exit");
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
      await writeExit(folder, withExit(project, tier, cut(), "edge-exit"), "edge-exit");
      const once = await readProject(folder);
      expect(once.project).toMatchObject({
        description: "kept",
        tiers: [{ id: "edge-exit" }, { id: "region", resumes: { tier: "edge-exit" } }],
      });
      const again = classificationOf(once.project);
      await writeExit(
        folder,
        withExit(again, tierToCut(again, undefined), made.cuts[1] ?? cut(), "edge-exit"),
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
  expect(() => tierToCut(project, "edge")).toThrow(
    expect.objectContaining({ code: "no_such_tier" }),
  );
});
