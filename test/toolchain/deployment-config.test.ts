// The key `edgetier` of package.json.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readDeploymentConfig } from "../../src/toolchain/deployment-config.ts";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";

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

it("has a default for everything: a cut engine, within what Cloudflare allows", async () => {
  const config = await read({ name: "someone's" });
  expect(config).toMatchObject({
    engine: "cut",
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

it("takes what is given, and keeps the other defaults", async () => {
  const defaults = await read({});
  const given = { engine: "full", fallbackEngine: "never", warmUpRuns: 0, keepFunctions: [17, 0] };
  expect(await read({ edgetier: { ...given, limits: { startupCpuMs: 400 } } })).toEqual({
    ...defaults,
    ...given,
    limits: { ...defaults.limits, startupCpuMs: 400 },
  });
});

it("names all problems together, each with where it is", async () => {
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
  await expect(reading).rejects.toMatchObject({ code: "invalid_configuration" });
  for (const where of [
    "engine",
    "fallbackEngine",
    "engineGzipBytes",
    "warmUpRuns",
    "keepFunctions.0",
    "limits.startupCpuMs",
  ]) {
    await expect(reading).rejects.toThrow(`package.json, edgetier: ${where}: `);
  }
});

it("refuses what it does not know: a misspelt key would be a default in disguise", async () => {
  const reading = read({ edgetier: { warmupRuns: 3, limits: { workerbytes: 1 } } });
  await expect(reading).rejects.toThrow(/edgetier: .*"warmupRuns"/);
  await expect(reading).rejects.toThrow(/limits: .*"workerbytes"/);
  await expect(read({ edgetier: [] })).rejects.toMatchObject({ code: "invalid_configuration" });
  await expect(read({ edgetier: "cut" })).rejects.toMatchObject({ code: "invalid_configuration" });
});

it("says that package.json cannot be read, and why", async () => {
  await expect(read("{oops")).rejects.toMatchObject({
    code: "invalid_configuration",
    detail: expect.stringMatching(/package\.json cannot be read: .*JSON/),
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
