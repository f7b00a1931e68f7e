// Deployment configuration: the key `edgetier` of package.json.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { readDeploymentConfig } from "../../src/toolchain/deployment-config.ts";

const MiB = 1024 * 1024;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-config-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function read(packageJson: unknown) {
  await writeFile(
    join(folder, "package.json"),
    typeof packageJson === "string" ? packageJson : JSON.stringify(packageJson),
  );
  return await readDeploymentConfig(folder);
}

it("has a default for every field, within Cloudflare's limits", async () => {
  const config = await read({ name: "someone's" });
  expect(config).toMatchObject({
    engine: "stripped",
    fallbackEngine: "auto",
    keepFunctions: [],
    limits: { workerBytes: 64 * MiB, startupCpuMs: 1_000, isolateBytes: 128 * MiB },
  });
  expect(config.engineGzipBytes).toBeLessThanOrEqual(config.limits.engineGzipBytes);
  expect(config.bundledMemoryBytes).toBeLessThanOrEqual(config.sessionBudgetBytes);
  expect(config.sessionBudgetBytes).toBeLessThan(config.limits.isolateBytes);
  expect(await read({ edgetier: {} })).toEqual(config);
  expect(await read({ edgetier: { limits: {} } })).toEqual(config);
});

describe("the engine", () => {
  const readWithWarnings = async (engine: string) => {
    const warnings: string[] = [];
    await writeFile(join(folder, "package.json"), JSON.stringify({ edgetier: { engine } }));
    const config = await readDeploymentConfig(folder, (line) => warnings.push(line));
    return { engine: config.engine, warnings };
  };

  it.each(["stripped", "full"])("can be named %s, without a warning", async (engine) => {
    expect(await readWithWarnings(engine)).toEqual({ engine, warnings: [] });
  });

  it("can still be named cut, with a warning that names the new value", async () => {
    expect(await readWithWarnings("cut")).toEqual({
      engine: "stripped",
      warnings: [expect.stringMatching(/edgetier\.engine.*"cut".*"stripped"/)],
    });
  });
});

it("overrides the given fields only", async () => {
  const defaults = await read({});
  const given = { engine: "full", fallbackEngine: "never", warmUpRuns: 0, keepFunctions: [17, 0] };
  expect(await read({ edgetier: { ...given, limits: { startupCpuMs: 400 } } })).toEqual({
    ...defaults,
    ...given,
    limits: { ...defaults.limits, startupCpuMs: 400 },
  });
});

it("names all problems together, each with its path", async () => {
  const reading = read({
    edgetier: {
      engine: "half",
      fallbackEngine: true,
      engineGzipBytes: -1,
      warmUpRuns: 101,
      keepFunctions: [1.5],
      limits: { startupCpuMs: 0 },
    },
  });
  for (const path of [
    "engine",
    "fallbackEngine",
    "engineGzipBytes",
    "warmUpRuns",
    "keepFunctions.0",
    "limits.startupCpuMs",
  ]) {
    await expect(reading).rejects.toMatchObject({
      code: "invalid_configuration",
      detail: expect.stringContaining(`package.json, edgetier: ${path}: `),
    });
  }
});

it("rejects unknown keys, because a misspelled key would silently leave the default", async () => {
  await expect(
    read({ edgetier: { warmupRuns: 3, limits: { workerbytes: 1 } } }),
  ).rejects.toMatchObject({
    code: "invalid_configuration",
    detail: expect.stringMatching(/(?=.*edgetier: .*"warmupRuns")(?=.*limits: .*"workerbytes")/s),
  });
});

it.each([[[]], ["cut"]])("rejects %j in place of an object", async (edgetier) => {
  await expect(read({ edgetier })).rejects.toMatchObject({ code: "invalid_configuration" });
});

it("rejects a package.json that cannot be read, with the reason", async () => {
  await expect(read("{oops")).rejects.toMatchObject({
    code: "invalid_configuration",
    detail: expect.stringMatching(/package\.json.*JSON/),
  });
  await expect(readDeploymentConfig(join(folder, "nowhere"))).rejects.toMatchObject({
    code: "invalid_configuration",
    detail: expect.stringContaining("ENOENT"),
  });
});

it("is valid in this project", async () => {
  await expect(readDeploymentConfig(PROJECT_ROOT)).resolves.toMatchObject({
    engine: expect.any(String),
  });
});
