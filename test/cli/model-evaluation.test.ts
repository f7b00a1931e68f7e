// Tests the commands that evaluate models, on a small project with a real workerd and onnxruntime-node.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readProject } from "../../src/toolchain/project.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { writeSamples, writeToyProject } from "../support/toy-project.ts";

const SECONDS = 1000;
let folder: string;
let toy: string;
let samples: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-evaluation-"));
  toy = join(folder, "toy");
  await writeToyProject(toy);
  samples = await writeSamples(join(folder, "samples.jsonl"), [
    ["yes", "yes"],
    ["no", "no"],
    ["maybe", "yes"],
    ["other", "oos"],
    ["no", "yes"],
  ]);
});
afterAll(() => rm(folder, { recursive: true }));

describe("edgetier model eval", () => {
  it(
    "prints JSON for programs",
    async () => {
      const { code, stdout } = await runEdgetier([
        "model",
        "eval",
        toy,
        "--samples",
        samples,
        "--json",
      ]);
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({
        model: "toy",
        samples: 5,
        cascade: { accuracy: 0.8, oosRecall: 1 },
        slo: { kind: "none" },
      });
    },
    60 * SECONDS,
  );

  it(
    "prints a table with its confusions",
    async () => {
      const { code, stdout } = await runEdgetier(["model", "eval", toy, "--samples", samples]);
      expect(code).toBe(0);
      expect(stdout).toMatch(/^TIER +ANSWERS +ACCURACY/);
      expect(stdout).toMatch(/cascade +100\.00 % +80\.00 %/);
      expect(stdout).toMatch(/yes +no +1/);
    },
    60 * SECONDS,
  );

  it.each([
    ["no samples", [], 2, "usage", "--samples"],
    ["missing samples", ["--samples", "nowhere.jsonl"], 1, "invalid_samples", "nowhere.jsonl"],
    ["an invalid limit", ["--samples", "x", "--limit", "many"], 2, "usage", "--limit"],
  ])(
    "rejects %s",
    async (_, args, exitCode, code, value) => {
      expect(await runFailingEdgetier(["model", "eval", toy, ...args])).toMatchObject({
        exitCode,
        code,
        detail: expect.stringContaining(value),
      });
    },
    60 * SECONDS,
  );
});

describe("edgetier model profile", () => {
  it(
    "reports phases in both runtimes, memory, and operators in both engines",
    async () => {
      const { code, stdout } = await runEdgetier([
        "model",
        "profile",
        toy,
        "--samples",
        samples,
        "--json",
      ]);
      expect(code).toBe(0);
      const { tiers } = JSON.parse(stdout);
      expect(tiers).toMatchObject([
        {
          tier: "edge",
          runtimes: [{ runtime: "workerd", memoryBytes: expect.any(Number) }, { runtime: "node" }],
          without: [],
        },
        { tier: "region", without: [] },
      ]);
      expect(Object.keys(tiers[0].operators)).toEqual(["onnxruntime-web", "onnxruntime-node"]);
      expect(Object.keys(tiers[0].runtimes[0].phases)).toEqual([
        "preprocess",
        "infer",
        "postprocess",
      ]);
    },
    60 * SECONDS,
  );
});

describe("edgetier model compare", () => {
  it(
    "reports the difference of two projects",
    async () => {
      const other = join(folder, "other");
      await writeToyProject(other, { tiers: [] as never });
      const same = await runEdgetier([
        "model",
        "compare",
        toy,
        toy,
        "--samples",
        samples,
        "--json",
      ]);
      expect(same.code).toBe(0);
      expect(JSON.parse(same.stdout).comparison).toMatchObject({
        samples: 5,
        gainPoints: 0,
        won: 0,
        lost: 0,
        pValue: 1,
        agreement: 1,
      });
      expect(
        await runFailingEdgetier(["model", "compare", toy, other, "--samples", samples]),
      ).toMatchObject({ exitCode: 1, code: "invalid_project" });
    },
    60 * SECONDS,
  );
});

const plan = {
  schemaVersion: 1,
  tiers: [
    {
      tier: "edge",
      source: "artifacts/toy.onnx",
      bounds: { maxLossPoints: 0 },
      prefer: "bytes",
      candidates: [
        { name: "same" },
        { name: "dynamic", steps: [{ kind: "quantize", mode: "dynamic" }] },
      ],
    },
  ],
};

describe("edgetier model build", () => {
  it(
    "evaluates the candidates of build.json, writes the chosen ones, and creates their snapshots",
    async () => {
      const built = join(folder, "built");
      await writeToyProject(built);
      await writeFile(join(built, "build.json"), JSON.stringify(plan));
      const before = await readFile(join(built, "model.json"), "utf8");
      const options = [
        "model",
        "build",
        built,
        "--samples",
        samples,
        "--calibration",
        samples,
        "--rounds",
        "1",
        "--json",
      ];
      const dry = await runEdgetier([...options, "--dry-run"]);
      expect(JSON.parse(dry.stdout)).toMatchObject({
        tiers: [
          {
            tier: "edge",
            candidates: [{ name: "reference" }, { name: "same" }, { name: "dynamic" }],
          },
        ],
      });
      expect(await readFile(join(built, "model.json"), "utf8")).toBe(before);

      const { code, stdout } = await runEdgetier(options);
      const result = JSON.parse(stdout);
      expect({ code, snapshots: result.snapshots }).toMatchObject({
        code: 0,
        snapshots: [{ tier: "edge" }],
      });
      const taken = result.tiers[0].candidates.find(
        ({ name }: { name: string }) => name === result.tiers[0].chosen,
      );
      expect((await readFile(join(built, "artifacts/toy.onnx"))).byteLength).toBe(taken.bytes);
      const after = JSON.parse(await readFile(join(built, "model.json"), "utf8"));
      expect(after.tiers[0].figures).toMatchObject({
        accuracy: 0.75,
        p50MsInWorkerd: expect.any(Number),
        p50MsInNode: expect.any(Number),
      });
      expect(after.tiers[1]).toEqual(JSON.parse(before).tiers[1]);
      // A report of other graphs would be left out.
      expect((await readProject(built)).project).toMatchObject({ report: "artifacts/report.json" });
      expect(
        JSON.parse(await readFile(join(built, "artifacts/report.json"), "utf8")),
      ).toMatchObject({ tested: result.tested, tiers: [{ id: "edge" }, { id: "region" }] });
    },
    120 * SECONDS,
  );
});

describe("edgetier model build without samples", () => {
  it(
    "requires samples if there is a plan",
    async () => {
      const planned = join(folder, "planned");
      await writeToyProject(planned);
      await writeFile(join(planned, "build.json"), JSON.stringify(plan));
      expect(await runFailingEdgetier(["model", "build", planned])).toMatchObject({
        exitCode: 2,
        code: "usage",
        detail: expect.stringContaining("--samples"),
      });
    },
    60 * SECONDS,
  );
});

describe("deprecated names in build.json", () => {
  it(
    "cause one warning line on stderr, with the file and the current names",
    async () => {
      const deprecated = join(folder, "deprecated");
      await writeToyProject(deprecated);
      const path = join(deprecated, "build.json");
      const candidates = [{ name: "dynamic", steps: [{ do: "quantise", mode: "dynamic" }] }];
      const tiers = [{ tier: "edge", source: "artifacts/toy.onnx", bounds: {}, candidates }];
      await writeFile(path, JSON.stringify({ schemaVersion: 1, tiers }));
      const { stderr } = await runEdgetier(["model", "build", deprecated]);
      const warnings = stderr.split("\n").filter((line) => line.startsWith("warning:"));
      expect(warnings).toEqual([expect.stringContaining(path)]);
      expect(warnings[0]).toContain('"do" -> "kind"');
      const [before, after] = ["quantise", "quantize"];
      expect(warnings[0]).toContain(`"${before}" -> "${after}"`);
    },
    60 * SECONDS,
  );
});
