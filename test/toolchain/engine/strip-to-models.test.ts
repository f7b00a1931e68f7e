// Validation of stripped engines: missed functions are found in workerd, and an engine that fails there is not deployed.
// Damaged products of former builds are rebuilt.
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ENGINE_FOLDER, PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import {
  type DeploymentConfig,
  readDeploymentConfig,
} from "../../../src/toolchain/deployment-config.ts";
import {
  type BuiltDeployment,
  buildDeployment,
  type DeployedGraph,
} from "../../../src/toolchain/engine/build-deployment.ts";
import { parseWasmModule } from "../../../src/toolchain/engine/wasm-module.ts";
import { readFixtureGraph } from "../../support/fixture-graphs.ts";

const SECONDS = 1000;

let root: string;
let config: DeploymentConfig;
let graph: DeployedGraph;
let valid: BuiltDeployment;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "edgetier-validation-"));
  config = await readDeploymentConfig(PROJECT_ROOT);
  graph = await readFixtureGraph("int8-matmul");
  valid = await build("valid");
}, 60 * SECONDS);
afterAll(() => rm(root, { recursive: true }));

const build = (folder: string) =>
  buildDeployment({
    graphs: [graph],
    config,
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: join(root, folder, "snapshots"),
    outFolder: join(root, folder, "edge"),
  });

/** Copies the snapshots of `valid` with a changed profile. */
async function copySnapshots(
  folder: string,
  changeEntered: (entered: readonly number[]) => readonly number[],
): Promise<void> {
  const snapshots = join(root, folder, "snapshots");
  await cp(join(root, "valid/snapshots"), snapshots, { recursive: true });
  const [path = ""] = (await readdir(snapshots))
    .filter((name) => name.endsWith(".json"))
    .map((name) => join(snapshots, name));
  const json: { profile: { entered: readonly number[] } } = JSON.parse(
    await readFile(path, "utf8"),
  );
  await writeFile(
    path,
    JSON.stringify({
      ...json,
      profile: { ...json.profile, entered: changeEntered(json.profile.entered) },
    }),
  );
}

it(
  "finds and keeps a function that the profile missed",
  async () => {
    const full = parseWasmModule(await readFile(join(ENGINE_FOLDER, "engine.wasm")));
    const sizeOf = (index: number) =>
      full.functionBodies[index - full.importedFunctionCount]?.byteLength ?? 0;
    const inTable = new Set(full.tableSlots);
    let missed = 0;
    await copySnapshots("missed", (entered) => {
      missed = entered
        .filter((index) => inTable.has(index))
        .reduce((largest, index) => (sizeOf(index) > sizeOf(largest) ? index : largest));
      return entered.filter((index) => index !== missed);
    });
    const { report } = await build("missed");
    expect(report.functions.filter(({ why }) => why === "validation")).toEqual([
      { number: missed, bytes: sizeOf(missed), why: "validation" },
    ]);
    expect(report.engine).toEqual(valid.report.engine);
    expect(report.validation).toEqual(valid.report.validation);
  },
  60 * SECONDS,
);

it(
  "deploys the full engine if the stripped one fails its validation",
  async () => {
    await copySnapshots("hopeless", () => []);
    const { report } = await build("hopeless");
    const { inputs = 0 } = valid.report.validation[0] ?? {};
    expect(report).toMatchObject({
      engine: {
        kind: "full",
        sha256: report.full.sha256,
        reason: expect.stringContaining(`${inputs} of ${inputs} inputs of int8-matmul/edge`),
      },
      functions: [],
      validation: [],
    });
    expect((await readFile(join(root, "hopeless/edge/engine.wasm"))).byteLength).toBe(
      report.full.bytes,
    );
  },
  60 * SECONDS,
);

it(
  "rebuilds damaged snapshots and a damaged report",
  async () => {
    await cp(join(root, "valid"), join(root, "damaged"), { recursive: true });
    const snapshots = join(root, "damaged/snapshots");
    const [snapshot = ""] = (await readdir(snapshots)).filter((name) => name.endsWith(".bin"));
    const bytes = await readFile(join(snapshots, snapshot));
    await writeFile(
      join(snapshots, snapshot),
      bytes.map((byte, index) => (index === 1_000_000 ? byte ^ 1 : byte)),
    );
    // The deployment itself is intact.
    expect(await build("damaged")).toEqual({ ...valid, cached: true });
    await writeFile(join(root, "damaged/edge/report.json"), "{}");
    expect(await build("damaged")).toEqual(valid);
    expect((await readFile(join(snapshots, snapshot))).equals(bytes)).toBe(true);
  },
  60 * SECONDS,
);
