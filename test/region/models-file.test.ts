// Models file of a region: validation with every problem, warm-up files, and precedence over the manifests.
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readModelsFile } from "../../functions/region/models-file.ts";
import { EdgeTierError } from "../../src/core/errors.ts";
import { sha256Hex } from "../../src/core/hash.ts";
import {
  shouldPreload,
  resolveServingConfig,
  versionPolicyOf,
} from "../../src/region/server/operator-config.ts";

let folder: string;
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "edgetier-models-")));
});
afterAll(() => rm(folder, { recursive: true }));

async function readContent(content: unknown) {
  const path = join(folder, "models.json");
  await writeFile(path, typeof content === "string" ? content : JSON.stringify(content));
  return { ...(await readModelsFile(path)), defaults: { instances: 1, intraOpThreads: 2 } };
}

async function readProblems(content: unknown): Promise<string> {
  const error = await readContent(content).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(EdgeTierError);
  expect(error).toMatchObject({ code: "invalid_configuration" });
  return (error as EdgeTierError).detail;
}

const warmup = (file: string) => [
  { name: "w", inputs: { x: { datatype: "UINT8", shape: [3], data: { file } } } },
];

describe("the models file", () => {
  it("is optional", async () => {
    const config = { ...(await readModelsFile(undefined)), defaults: {} };
    expect({
      versions: versionPolicyOf(config, "mood"),
      preload: shouldPreload(config, "mood"),
    }).toEqual({ versions: "all", preload: false });
    expect(resolveServingConfig(config, "mood", { id: "heavy" })).toEqual({
      batching: { queue: {} },
    });
  });

  it("prefers the entry of a model to the entry of all models", async () => {
    const config = await readContent({
      "*": { versions: { latest: 1 }, preload: true },
      mood: { versions: { specific: [3] } },
      lazy: { preload: false, versions: "all" },
    });
    expect(
      ["mood", "lazy", "other"].map((model) => ({
        model,
        versions: versionPolicyOf(config, model),
        preload: shouldPreload(config, model),
      })),
    ).toEqual([
      { model: "mood", versions: { specific: [3] }, preload: true },
      { model: "lazy", versions: "all", preload: false },
      { model: "other", versions: { latest: 1 }, preload: true },
    ]);
  });
});

describe("serving configuration", () => {
  it("comes from tier, model and all models in this order, then manifest, then settings", async () => {
    const config = await readContent({
      "*": {
        intraOpThreads: 10,
        graphOptimization: "basic",
        batching: { mode: "fixed", queue: { maxQueueSize: 7 } },
      },
      mood: {
        intraOpThreads: 20,
        instances: 2,
        tiers: { heavy: { intraOpThreads: 30, batching: { maxBatchRows: 4 } } },
      },
    });
    const manifest = {
      instances: 5,
      graphOptimization: "all" as const,
      batching: { mode: "off" as const, preferredBatchRows: [8] },
    };
    expect(resolveServingConfig(config, "mood", { id: "heavy", serving: manifest })).toEqual({
      intraOpThreads: 30,
      instances: 2,
      graphOptimization: "basic",
      batching: {
        mode: "fixed",
        preferredBatchRows: [8],
        maxBatchRows: 4,
        queue: { maxQueueSize: 7 },
      },
    });
    expect(resolveServingConfig(config, "mood", { id: "light" })).toMatchObject({
      intraOpThreads: 20,
      instances: 2,
    });
    expect(resolveServingConfig(config, "other", { id: "heavy", serving: manifest })).toMatchObject(
      {
        intraOpThreads: 10,
        instances: 5,
      },
    );
    expect(
      resolveServingConfig({ ...config, allModels: { serving: {} } }, "other", { id: "heavy" }),
    ).toMatchObject({
      intraOpThreads: 2,
      instances: 1,
    });
  });
});

describe("warm-up files", () => {
  it("are read from the folder of the models file", async () => {
    await mkdir(join(folder, "samples"), { recursive: true });
    await writeFile(join(folder, "samples/row.bin"), "abc");
    const config = await readContent({
      mood: {
        warmup: warmup("samples/row.bin"),
        tiers: { heavy: { warmup: warmup("./samples/../samples/row.bin") } },
      },
    });
    const ref = { sha256: await sha256Hex(new TextEncoder().encode("abc")), size: 3 };
    expect(resolveServingConfig(config, "mood", { id: "heavy" }).warmup?.[0]).toMatchObject({
      batchRows: 1,
      count: 1,
      inputs: { x: { data: { file: ref } } },
    });
    expect([...config.warmupFiles]).toEqual([[ref.sha256, new TextEncoder().encode("abc")]]);
  });
});

describe("an invalid models file", () => {
  it("is rejected with every problem", async () => {
    const problems = await readProblems({
      "../x": {},
      "*": { tiers: {} },
      mood: {
        instances: 0,
        versions: { newest: 1 },
        preload: "yes",
        threads: 1,
        tiers: { heavy: { executionProviders: [{ name: "rocm" }] } },
      },
    });
    for (const part of [
      "EDGETIER_REGION_MODELS",
      join(folder, "models.json"),
      '"../x"',
      "mood.instances",
      'mood.versions: must be "all", {"latest"',
      "mood.preload",
      "threads",
      "mood.tiers.heavy.executionProviders",
      "tiers",
    ]) {
      expect(problems).toContain(part);
    }
    expect(
      problems.split("\n").filter((line) => line.includes("EDGETIER_REGION_MODELS")),
    ).toHaveLength(7);
  });

  it("is rejected if it or a warm-up file cannot be read", async () => {
    await writeFile(join(folder, "empty.bin"), "");
    const outside = process.execPath;
    await symlink(outside, join(folder, "link.bin"));
    expect(await readProblems("{")).toContain(join(folder, "models.json"));
    await expect(readModelsFile(join(folder, "none.json"))).rejects.toMatchObject({
      code: "invalid_configuration",
      detail: expect.stringContaining("none.json"),
    });
    const problems = await readProblems({
      "*": { warmup: warmup("none.bin") },
      a: { warmup: warmup("empty.bin") },
      b: { warmup: warmup("../x.bin") },
      c: { tiers: { t: { warmup: warmup("link.bin") } } },
      d: { warmup: warmup(outside) },
    });
    const problemLines = problems
      .split("\n")
      .filter((line) => line.includes("EDGETIER_REGION_MODELS"));
    expect(problemLines).toEqual([
      expect.stringMatching(/"none\.bin".*ENOENT/),
      expect.stringContaining('"empty.bin"'),
      expect.stringMatching(/"\.\.\/x\.bin".*ENOENT/),
      expect.stringContaining('"link.bin"'),
      expect.stringContaining(JSON.stringify(outside)),
    ]);
  });
});
