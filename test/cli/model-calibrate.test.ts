// Tests `edgetier model calibrate`, and builds with a risk, with a real workerd and onnxruntime-node.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { modelReportSchema } from "../../src/protocol/model-report.ts";
import { parseFailure, runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { writeSamples, writeToyProject } from "../support/toy-project.ts";

const SECONDS = 1000;
let folder: string;
let samples: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-calibrate-"));
  const rows = Array.from({ length: 60 }, (_, index): [string, string] =>
    index % 3 === 0 ? ["maybe", "yes"] : index % 3 === 1 ? ["yes", "yes"] : ["no", "no"],
  );
  samples = await writeSamples(join(folder, "samples.jsonl"), rows);
});
afterAll(async () => await rm(folder, { recursive: true, force: true }));

async function writeToy(name: string): Promise<string> {
  await writeToyProject(join(folder, name), { deadlineMs: 600_000 }); // no deadline passes on a busy machine
  return join(folder, name);
}
const readModelJson = async (path: string) =>
  JSON.parse(await readFile(join(path, "model.json"), "utf8"));

async function expectRiskOnResamples(project: string, risk: unknown): Promise<void> {
  const inspected = await runEdgetier([
    "model",
    "eval",
    project,
    "--samples",
    samples,
    "--splits",
    "5",
    "--json",
  ]);
  expect(JSON.parse(inspected.stdout)).toMatchObject({
    risk: risk,
    resamples: {
      epsilon: 0.2,
      delta: 0.1,
      halves: { splits: 5, heldShare: 1 },
      draws: { heldShare: 1 },
    },
  });
}

describe("edgetier model calibrate", () => {
  it(
    "writes calibrations, exits and the risk into model.json, and the curves as a page",
    async () => {
      const project = await writeToy("calibrated");
      const before = await readModelJson(project);
      const report = join(folder, "report.html");
      const { code, stdout, stderr } = await runEdgetier([
        "model",
        "calibrate",
        project,
        "--samples",
        samples,
        "--epsilon",
        "0.2",
        "--delta",
        "0.1",
        "--method",
        "temperature",
        "--report",
        report,
        "--json",
      ]);
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      const result = JSON.parse(stdout);
      const after = await readModelJson(project);
      expect(after.risk).toEqual({
        what: "disagreement",
        epsilon: 0.2,
        delta: 0.1,
        method: expect.any(String),
        samples: 42,
        empiricalRisk: 0,
      }); // both tiers are one graph
      expect(result).toMatchObject({
        model: "toy",
        risk: after.risk,
        fitted: 18,
        tested: 42,
        curves: { cascade: expect.any(Array) },
      });
      expect(after.tiers.map(({ exit }: { exit: object | null }) => exit)).toEqual([
        { confidence: result.tiers[0].exit.confidence },
        null,
      ]);
      expect(after.tiers[0].calibration.outOfScope).toEqual({
        ...before.tiers[0].calibration.outOfScope,
        temperature: 1,
      });
      expect(after.tiers[0].graph).toBe(before.tiers[0].graph);
      expect(after.figures).toMatchObject({ accuracy: 1, edgeShare: 1 });
      expect(await readFile(report, "utf8")).toContain("<title>toy: calibration</title>");

      await expectRiskOnResamples(project, after.risk);
    },
    300 * SECONDS,
  );
});

describe("the report of edgetier model calibrate", () => {
  it(
    "writes the report of the model, and only the report with --report-only",
    async () => {
      const project = await writeToy("reported");
      const args = ["model", "calibrate", project, "--samples", samples];
      expect(
        (
          await runEdgetier([
            ...args,
            "--epsilon",
            "0.2",
            "--delta",
            "0.1",
            "--method",
            "temperature",
          ])
        ).code,
      ).toBe(0);
      const calibrated = await readModelJson(project);
      expect(calibrated.report).toBe("artifacts/report.json");
      const reportFile = join(project, calibrated.report);
      const written = modelReportSchema.parse(JSON.parse(await readFile(reportFile, "utf8")));
      expect(written).toMatchObject({
        model: "toy",
        tested: 42,
        risk: { what: "disagreement", epsilon: 0.2, delta: 0.1 },
      });
      await rm(reportFile);
      const { report: _report, ...unreported } = calibrated;
      await writeFile(join(project, "model.json"), JSON.stringify(unreported));
      expect((await runEdgetier([...args, "--report-only"])).code).toBe(0);
      expect(await readModelJson(project)).toEqual(calibrated);
      expect(JSON.parse(await readFile(reportFile, "utf8"))).toEqual(written);
    },
    300 * SECONDS,
  );
});

describe("bounds of edgetier model calibrate", () => {
  it(
    "rejects a risk that too few samples can show, and writes no file",
    async () => {
      const project = await writeToy("unreached");
      const before = await readModelJson(project);
      const args = [
        "model",
        "calibrate",
        project,
        "--samples",
        samples,
        "--epsilon",
        "0.01",
        "--method",
        "temperature",
      ];
      expect(await runFailingEdgetier(args)).toMatchObject({
        exitCode: 1,
        code: "risk_not_reached",
        detail: expect.stringMatching(/42.*60/s),
        remedy: expect.stringMatching(/428.*--allow-last-tier-only/s),
      });
      expect(await readModelJson(project)).toEqual(before);
      expect((await runEdgetier([...args, "--allow-last-tier-only", "--dry-run"])).code).toBe(0);
      expect(await readModelJson(project)).toEqual(before);
      expect((await runEdgetier([...args, "--allow-last-tier-only"])).code).toBe(0);
      expect(await readModelJson(project)).toMatchObject({
        risk: { method: "last tier only" },
        tiers: [{ exit: { confidence: 1 } }, { exit: null }],
      });
    },
    180 * SECONDS,
  );

  it.each([
    [["--epsilon", "2"], "--epsilon"],
    [["--risk", "ruin"], "--risk"],
    [["--method", "magic"], "--method"],
    [["--cost", "edge=1"], "--cost"],
    [["--cost", "moon=1"], "--cost"],
    [["--region-ms", "-1"], "--region-ms"],
  ])(
    "rejects %j as a usage error",
    async (options, option) => {
      const project = await writeToy("usage");
      expect(
        await runFailingEdgetier(["model", "calibrate", project, "--samples", samples, ...options]),
      ).toMatchObject({
        exitCode: 2,
        code: "usage",
        detail: expect.stringContaining(option),
      });
    },
    60 * SECONDS,
  );
});

describe("edgetier model build with a risk", () => {
  const tierPlan = (tier: string) => ({
    tier,
    source: "artifacts/toy.onnx",
    bounds: { maxLossPoints: 0 },
    candidates: [{ name: "same" }],
  });
  const build = async (project: string, plan: object) => {
    await writeFile(join(project, "build.json"), JSON.stringify({ schemaVersion: 1, ...plan }));
    return await runEdgetier([
      "model",
      "build",
      project,
      "--samples",
      samples,
      "--calibration",
      samples,
      "--rounds",
      "1",
      "--json",
    ]);
  };

  it(
    "chooses the exits for the risk, and drops the risk if a later plan has none",
    async () => {
      const project = await writeToy("built");
      const tiers = ["edge", "region"].map(tierPlan);
      expect(
        (await build(project, { tiers, risk: { epsilon: 0.2, delta: 0.1, method: "temperature" } }))
          .code,
      ).toBe(0);
      expect(await readModelJson(project)).toMatchObject({
        risk: { what: "disagreement", epsilon: 0.2, samples: 42 },
        tiers: [{ calibration: { outOfScope: { temperature: 1 } } }, {}],
      });
      expect((await build(project, { tiers })).code).toBe(0);
      expect(await readModelJson(project)).not.toHaveProperty("risk");
    },
    180 * SECONDS,
  );

  it(
    "requires every tier in the plan, because the exits are chosen together",
    async () => {
      const failure = parseFailure(
        await build(await writeToy("half-planned"), {
          tiers: [tierPlan("edge")],
          risk: { epsilon: 0.2 },
        }),
      );
      expect(failure).toMatchObject({ exitCode: 1, detail: expect.stringContaining("region") });
    },
    120 * SECONDS,
  );
});
