// The report that is published with a version: its content, and its publication with the model.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { modelReportSchema } from "../../../src/protocol/model-report.ts";
import { createMemoryObjectStore } from "../../../src/registry/drivers/memory.ts";
import { listArtifacts } from "../../../src/registry/manifest.ts";
import { createModelStore } from "../../../src/registry/object-model-store.ts";
import { publishModel } from "../../../src/registry/publish.ts";
import { calibrateCascade } from "../../../src/toolchain/calibrate/calibrate-cascade.ts";
import { applyCascade } from "../../../src/toolchain/calibrate/calibrate-project.ts";
import { computeCalibrationCurves } from "../../../src/toolchain/calibrate/calibration-curves.ts";
import { buildModelReport } from "../../../src/toolchain/calibrate/model-report.ts";
import { requireProjectFile } from "../../../src/toolchain/evaluate/project-tier.ts";
import { readProject } from "../../../src/toolchain/project.ts";
import { readToyFiles, toyProject, writeToyProject } from "../../support/toy-project.ts";
import { createSyntheticCascade } from "./synthetic-cascade.ts";

const options = {
  what: "disagreement",
  epsilon: 0.1,
  delta: 0.1,
  deadlineMs: 1_000,
  method: "temperature",
} as const;

/** Builds a report of the toy project with the calibration of a synthetic cascade. */
async function buildTestReport() {
  const { tiers, labeled } = createSyntheticCascade(2_000, [12, 60]);
  const cascade = calibrateCascade(tiers, labeled, options);
  const curves = computeCalibrationCurves(tiers, cascade, labeled, undefined, options);
  const { risk } = cascade;
  const project = {
    ...toyProject,
    ...(risk === undefined ? {} : { risk }),
    tiers: applyCascade(toyProject.tiers, cascade),
  };
  const files = await readToyFiles();
  const report = buildModelReport(
    { ...toyProject, ...(risk === undefined ? {} : { risk }) },
    curves,
    (path) => requireProjectFile({ project: toyProject, files }, path),
  );
  return { report, curves, exits: project.tiers.flatMap(({ exit }) => exit?.confidence ?? []) };
}

describe("buildModelReport", () => {
  it("contains the chosen thresholds among its points, in order of coverage, in a few kilobytes", async () => {
    const { report, curves, exits } = await buildTestReport();
    expect(modelReportSchema.parse(report)).toEqual(report);
    expect(JSON.stringify(report).length).toBeLessThan(10_000);
    const chosen = report.points.find(({ thresholds }) => thresholds[0] === exits[0]);
    expect(chosen).toMatchObject({
      holds: true,
      risk: expect.closeTo(curves.chosen?.risk ?? -1, 3),
    });
    const coverages = report.points.map(({ shares }) => shares[0] ?? 0);
    expect(coverages).toEqual(coverages.toSorted((a, b) => a - b));
    expect(coverages[0]).toBe(0);
    expect(report.points[0]?.holds).toBe(true);
    expect(report.points.at(-1)?.holds).toBe(false); // Without the last tier, disagreements are too frequent.
    expect(report.points.length).toBeGreaterThan(20);
    expect(report.points.length).toBeLessThan(50);
  });

  it("contains only the reliability for a single tier", async () => {
    const { tiers, labeled } = createSyntheticCascade(400, [30]);
    const curves = computeCalibrationCurves(
      tiers,
      calibrateCascade(tiers, labeled, options),
      labeled,
      undefined,
      options,
    );
    const [first] = toyProject.tiers;
    const report = buildModelReport(
      { ...toyProject, tiers: first === undefined ? [] : [{ ...first, exit: null }] },
      curves,
      () => new Uint8Array(1),
    );
    expect(modelReportSchema.parse(report)).toMatchObject({
      points: [],
      tiers: [{ id: "edge", bins: expect.any(Array) }],
    });
    expect(report).not.toHaveProperty("risk");
  });
});

describe("a project with a report", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "edgetier-report-"));
    const { report } = await buildTestReport();
    await writeToyProject(folder);
    await writeFile(join(folder, "artifacts/report.json"), JSON.stringify(report));
    await writeProject({ report: "artifacts/report.json" });
  });
  afterAll(() => rm(folder, { recursive: true }));
  const writeProject = async (changes: object) =>
    await writeFile(join(folder, "model.json"), JSON.stringify({ ...toyProject, ...changes }));

  it("is published with it", async () => {
    const store = createModelStore(createMemoryObjectStore());
    const source = await readProject(folder);
    await publishModel(store, source);
    const manifest = await store.readManifest("toy", 1);
    const ref = manifest !== undefined && "report" in manifest ? manifest.report : undefined;
    expect(manifest && listArtifacts(manifest)).toContainEqual(ref);
    const published =
      ref === undefined ? "" : new TextDecoder().decode(await store.readArtifact(ref));
    expect(modelReportSchema.parse(JSON.parse(published))).toMatchObject({
      model: "toy",
      risk: { what: "disagreement" },
    });
  });

  it("is read without the report if that is stale or invalid", async () => {
    const report = "artifacts/report.json";
    const hasReport = async () => "report" in (await readProject(folder)).project;
    expect(await hasReport()).toBe(true);
    const [edge, region] = toyProject.tiers;
    await writeProject({ report, tiers: [{ ...edge, calibration: { temperature: 2 } }, region] });
    expect(await hasReport()).toBe(false);
    await writeProject({ report, tiers: [region] });
    expect(await hasReport()).toBe(false);
    await writeProject({ report: "labels.json" });
    expect(await hasReport()).toBe(false);
  });
});

describe("the reference models", () => {
  it.each(["intent", "vision"])(
    "%s has a current report, with its exit as the last point within the bound",
    async (model) => {
      const { project, files } = await readProject(
        join(import.meta.dirname, "../../../models", model),
      );
      const path = "report" in project ? (project.report ?? "") : "";
      const report = modelReportSchema.parse(JSON.parse(new TextDecoder().decode(files.get(path))));
      const [exit] = project.tiers.flatMap((tier) =>
        "exit" in tier && tier.exit !== null ? [tier.exit.confidence] : [],
      );
      expect(report.points.findLast(({ holds }) => holds)?.thresholds).toEqual([exit]);
    },
  );
});
