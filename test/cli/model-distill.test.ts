// Tests `edgetier model distill` on the toy project, with a real workerd.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { writeSamples, writeToyProject } from "../support/toy-project.ts";

const SECONDS = 1000;
let folder: string;
let toy: string;
let common: string[];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-distill-"));
  toy = join(folder, "toy");
  await writeToyProject(toy);
  const words = ["yes", "no", "maybe", "other", "never"];
  const texts = words.flatMap((one) => [one, ...words.map((other) => `${one} ${other}`)]);
  await writeFile(
    join(folder, "texts.jsonl"),
    texts.map((text) => JSON.stringify({ text })).join("\n"),
  );
  const validation = await writeSamples(join(folder, "validation.jsonl"), [
    ["yes", "yes"],
    ["no", "no"],
    ["maybe", "yes"],
    ["other", "oos"],
  ]);
  common = [
    "model",
    "distill",
    toy,
    "--teacher",
    "region",
    "--student",
    "text-ngrams",
    "--samples",
    join(folder, "texts.jsonl"),
    "--validation",
    validation,
    "--cache",
    join(folder, "cache"),
    "--epochs",
    "150",
    "--hidden",
    "16",
    "--buckets",
    "256",
    "--dims",
    "8",
  ];
});
afterAll(() => rm(folder, { recursive: true }));

describe("edgetier model distill", () => {
  it(
    "prints the accuracy of the students, and writes no file on a dry run",
    async () => {
      const before = await readFile(join(toy, "model.json"), "utf8");
      const { code, stdout } = await runEdgetier([...common, "--out", "small", "--dry-run"]);
      expect(code).toBe(0);
      expect(stdout).toMatch(/^STUDENT +IN SCOPE +AGREES/);
      expect(stdout).toMatch(/^int8 +100\.00 %/m);
      expect(await readFile(join(toy, "model.json"), "utf8")).toBe(before);
    },
    120 * SECONDS,
  );

  it(
    "adds the tier to the project and prints JSON",
    async () => {
      const { code, stdout } = await runEdgetier([
        ...common,
        "--out",
        "small",
        "--quantization-aware",
        "--json",
      ]);
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({
        chosen: expect.stringMatching(/^int8/),
        isWritten: true,
        learnt: 30,
        judgedOn: 4,
        judged: [
          { name: "teacher", accuracy: 1 },
          { name: "fp32", p50Ms: expect.any(Number) },
          { name: "int8" },
          { name: "int8-aware" },
        ],
      });
      const { tiers } = JSON.parse(await readFile(join(toy, "model.json"), "utf8"));
      expect(tiers.map(({ id }: { id: string }) => id)).toEqual(["edge", "small", "region"]);
      const evaluated = await runEdgetier([
        "model",
        "eval",
        toy,
        "--samples",
        join(folder, "validation.jsonl"),
        "--json",
      ]);
      expect(JSON.parse(evaluated.stdout)).toMatchObject({
        tiers: [{ id: "edge" }, { id: "small", accuracy: 1 }, { id: "region" }],
      });
    },
    120 * SECONDS,
  );
});

describe("the arguments of edgetier model distill", () => {
  it.each<[what: string, change: (args: string[]) => string[], exitCode: number, code: string]>([
    ["no teacher", (args) => args.toSpliced(3, 2), 2, "usage"],
    ["an unknown teacher", (args) => args.with(4, "cloud"), 1, "no_such_tier"],
    ["an unknown student", (args) => args.with(6, "forest"), 2, "usage"],
    ["a tabular student of texts", (args) => args.with(6, "tabular"), 1, "not_distillable"],
    ["missing samples", (args) => args.with(8, "nowhere.jsonl"), 1, "invalid_training_samples"],
    ["an alpha above 1", (args) => [...args, "--alpha", "2"], 2, "usage"],
    ["no epochs", (args) => [...args, "--epochs", "0"], 2, "usage"],
  ])(
    "are rejected with %s",
    async (_, change, exitCode, code) => {
      expect(await runFailingEdgetier([...change(common), "--out", "wrong"])).toMatchObject({
        exitCode,
        code,
      });
    },
    60 * SECONDS,
  );
});
