// Trap log: reading called functions from it, and keeping them in later builds.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ENGINE_FOLDER } from "../../../src/cli/local/paths.ts";
import {
  addKeepFunctions,
  readDeploymentConfig,
} from "../../../src/toolchain/deployment-config.ts";
import { resolveFunctionIndices, parseTrapLog } from "../../../src/toolchain/engine/trap-log.ts";
import { parseWasmModule } from "../../../src/toolchain/engine/wasm-module.ts";

const fullEngineSha256 = "e".repeat(64);
const renderRecord = (fields: object, engine = fullEngineSha256) =>
  JSON.stringify({
    level: "error",
    event: "engine_trap",
    engine,
    tier: "edge",
    ...fields,
    detail: "…",
  });

it("finds the called functions among lines of any kind, and counts records of other engines", () => {
  const log = [
    "workerd says hello",
    renderRecord({ function: 327 }),
    `2026-11-21T09:00:00Z edge | ${renderRecord({ slot: 12 })}`,
    JSON.stringify({ level: "error", event: "request_failed", code: "internal" }),
    renderRecord({}), // This trap has another cause.
    renderRecord({ function: 5 }, "f".repeat(64)),
    '{"event":"engine_trap","function":',
    "",
  ].join("\n");
  expect(parseTrapLog(log, fullEngineSha256)).toEqual({
    calledFunctions: [{ function: 327 }, { slot: 12 }],
    otherEngineCount: 1,
  });
});

it("resolves slots in the engine's table", async () => {
  const path = join(ENGINE_FOLDER, "engine.wasm");
  const { tableSlots } = parseWasmModule(await readFile(path));
  expect(tableSlots[0]).toBeUndefined();
  expect(
    await resolveFunctionIndices(
      [{ slot: 20 }, { function: 327 }, { slot: 0 }, { slot: 20 }],
      path,
    ),
  ).toEqual([tableSlots[20], 327]);
});

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-traps-"));
});
afterAll(() => rm(folder, { recursive: true }));

it("adds functions to keepFunctions in package.json without other changes", async () => {
  const path = join(folder, "package.json");
  const before = {
    name: "mine",
    scripts: { start: "x" },
    edgetier: { warmUpRuns: 1, keepFunctions: [7] },
  };
  await writeFile(path, JSON.stringify(before, undefined, 2));
  await addKeepFunctions(folder, [327, 7, 12]);
  expect(JSON.parse(await readFile(path, "utf8"))).toEqual({
    ...before,
    edgetier: { warmUpRuns: 1, keepFunctions: [7, 12, 327] },
  });
  expect(await readDeploymentConfig(folder)).toMatchObject({
    warmUpRuns: 1,
    keepFunctions: [7, 12, 327],
  });
  const text = await readFile(path, "utf8");
  await addKeepFunctions(folder, [12]);
  expect(await readFile(path, "utf8")).toBe(text);
});
