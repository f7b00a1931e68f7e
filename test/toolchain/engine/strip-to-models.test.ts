// What keeps a wrong engine from being deployed: functions that a profile missed are found in workerd, an engine that fails
// there is not used, and damaged products of earlier builds are made again.
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type BuiltDeployment,
  buildDeployment,
  type DeployedGraph,
} from "../../../src/toolchain/engine/build-deployment.ts";
import {
  type DeploymentConfig,
  readDeploymentConfig,
} from "../../../src/toolchain/deployment-config.ts";
import { parseWasmModule } from "../../../src/toolchain/engine/wasm-module.ts";
import { ENGINE_FOLDER, PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import { readFixtureGraph } from "../../support/fixture-graphs.ts";

const SECONDS = 1000;

let root: string;
let config: DeploymentConfig;
let graph: DeployedGraph;
let right: BuiltDeployment;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "edgetier-validation-"));
  config = await readDeploymentConfig(PROJECT_ROOT);
  graph = await readFixtureGraph("int8-matmul");
  right = await build("right");
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

/** A copy of the snapshots that `right` was made from, with another profile. */
async function withProfile(
  folder: string,
  change: (entered: readonly number[]) => readonly number[],
): Promise<void> {
  const snapshots = join(root, folder, "snapshots");
  await cp(join(root, "right/snapshots"), snapshots, { recursive: true });
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
      profile: { ...json.profile, entered: change(json.profile.entered) },
    }),
  );
}

it(
  "finds a function that the profile missed, and keeps it after all",
  async () => {
    const full = parseWasmModule(await readFile(join(ENGINE_FOLDER, "engine.wasm")));
    const sizeOf = (index: number) =>
      full.functionBodies[index - full.importedFunctionCount]?.byteLength ?? 0;
    const inTable = new Set(full.tableSlots);
    let missed = 0;
    await withProfile("missed", (entered) => {
      missed = entered
        .filter((index) => inTable.has(index))
        .reduce((largest, index) => (sizeOf(index) > sizeOf(largest) ? index : largest));
      return entered.filter((index) => index !== missed);
    });
    const { report } = await build("missed");
    expect(report.functions.filter(({ why }) => why === "validation")).toEqual([
      { number: missed, bytes: sizeOf(missed), why: "validation" },
    ]);
    expect(report.engine).toEqual(right.report.engine);
    expect(report.validation).toEqual(right.report.validation);
  },
  60 * SECONDS,
);

it(
  "deploys the full engine where the cut one does not pass, and says so",
  async () => {
    await withProfile("hopeless", () => []);
    const { report } = await build("hopeless");
    const { inputs = 0 } = right.report.validation[0] ?? {};
    expect(report).toMatchObject({
      engine: {
        kind: "full",
        sha256: report.full.sha256,
        reason: expect.stringContaining(
          `did not pass its tests: ${inputs} of ${inputs} inputs of int8-matmul/edge`,
        ),
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
  "makes damaged snapshots, and a damaged report, again",
  async () => {
    await cp(join(root, "right"), join(root, "damaged"), { recursive: true });
    const snapshots = join(root, "damaged/snapshots");
    const [snapshot = ""] = (await readdir(snapshots)).filter((name) => name.endsWith(".bin"));
    const bytes = await readFile(join(snapshots, snapshot));
    await writeFile(
      join(snapshots, snapshot),
      bytes.map((byte, index) => (index === 1_000_000 ? byte ^ 1 : byte)),
    );
    expect(await build("damaged")).toEqual({ ...right, cached: true }); // the deployment itself is whole
    await writeFile(join(root, "damaged/edge/report.json"), "{}");
    expect(await build("damaged")).toEqual(right);
    expect((await readFile(join(snapshots, snapshot))).equals(bytes)).toBe(true);
  },
  60 * SECONDS,
);
