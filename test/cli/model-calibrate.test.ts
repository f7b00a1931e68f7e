// `edgetier model calibrate`, and builds that state a risk, as their users meet them: a real workerd, onnxruntime-node.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { modelReportSchema } from "../../src/protocol/model-report.ts";
import { runEdgetier } from "../support/edgetier-command.ts";
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

async function toy(name: string): Promise<string> {
  await writeToyProject(join(folder, name), { deadlineMs: 600_000 }); // however busy this machine is
  return join(folder, name);
}
const projectOf = async (path: string) =>
  JSON.parse(await readFile(join(path, "model.json"), "utf8"));

describe("edgetier model calibrate", () => {
  it(
    "writes calibrations, exits and the risk into model.json, and the curves as a page",
    async () => {
      const project = await toy("calibrated");
      const before = await projectOf(project);
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
      expect([code, stderr]).toEqual([0, ""]);
      const result = JSON.parse(stdout);
      const after = await projectOf(project);
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
        risk: after.risk,
        resamples: {
          epsilon: 0.2,
          delta: 0.1,
          halves: { splits: 5, heldShare: 1 },
          draws: { heldShare: 1 },
        },
      });
    },
    300 * SECONDS,
  );

  it(
    "writes the report that is published with it, alone where it is told to",
    async () => {
      const project = await toy("reported");
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
      const calibrated = await projectOf(project);
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
      expect((await runEdgetier([...args, "--as-is"])).code).toBe(0);
      expect(await projectOf(project)).toEqual(calibrated);
      expect(JSON.parse(await readFile(reportFile, "utf8"))).toEqual(written);
    },
    300 * SECONDS,
  );

  it(
    "tells how a bound that is out of reach could be reached, and writes nothing",
    async () => {
      const project = await toy("unreached");
      const before = await projectOf(project);
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
      const refused = await runEdgetier(args);
      expect([refused.code, refused.stderr]).toEqual([
        1,
        expect.stringMatching(
          /42 tested samples of 60[^]*Give 428 samples or more[^]*--or-top-only/,
        ),
      ]);
      expect(await projectOf(project)).toEqual(before);
      expect((await runEdgetier([...args, "--or-top-only", "--dry-run"])).code).toBe(0);
      expect(await projectOf(project)).toEqual(before);
      expect((await runEdgetier([...args, "--or-top-only"])).code).toBe(0);
      expect(await projectOf(project)).toMatchObject({
        risk: { method: "last tier only" },
        tiers: [{ exit: { confidence: 1 } }, { exit: null }],
      });
    },
    180 * SECONDS,
  );

  it.each([
    [["--epsilon", "2"], "--epsilon"],
    [["--risk", "ruin"], "disagreement or accuracy"],
    [["--method", "magic"], "temperature or isotonic or vector"],
    [["--cost", "edge=1"], "every tier"],
    [["--cost", "moon=1"], "edge, region"],
    [["--region-ms", "-1"], "--region-ms"],
  ])(
    "refuses %j",
    async (options, reason) => {
      const { code, stderr } = await runEdgetier([
        "model",
        "calibrate",
        await toy("usage"),
        "--samples",
        samples,
        ...options,
      ]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(reason)]);
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
    "chooses the exits for it, and drops it where a later plan states none",
    async () => {
      const project = await toy("built");
      const tiers = ["edge", "region"].map(tierPlan);
      expect(
        (await build(project, { tiers, risk: { epsilon: 0.2, delta: 0.1, method: "temperature" } }))
          .code,
      ).toBe(0);
      expect(await projectOf(project)).toMatchObject({
        risk: { what: "disagreement", epsilon: 0.2, samples: 42 },
        tiers: [{ calibration: { outOfScope: { temperature: 1 } } }, {}],
      });
      expect((await build(project, { tiers })).code).toBe(0);
      expect(await projectOf(project)).not.toHaveProperty("risk");
    },
    180 * SECONDS,
  );

  it(
    "wants every tier in the plan, for exits are chosen together",
    async () => {
      const { code, stderr } = await build(await toy("half-planned"), {
        tiers: [tierPlan("edge")],
        risk: { epsilon: 0.2 },
      });
      expect([code, stderr]).toEqual([1, expect.stringContaining("does not plan for tier region")]);
    },
    120 * SECONDS,
  );
});
