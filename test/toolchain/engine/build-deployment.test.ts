// Deployments of small graphs: stripped, validated in workerd, cached and reproducible. If stripping is impossible, the full
// engine is deployed.
//
// The file is long because one build of all graphs, in beforeAll, serves most of the tests.
import { createHash } from "node:crypto";
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENGINE_FOLDER, PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createBytesSource } from "../../../src/runtime/wasm/byte-source.ts";
import type { Deployment } from "../../../src/runtime/wasm/deployment.ts";
import { decodeFunctionSet } from "../../../src/runtime/wasm/function-set.ts";
import { restoreSnapshot } from "../../../src/runtime/wasm/restore-snapshot.ts";
import {
  type DeploymentConfig,
  readDeploymentConfig,
} from "../../../src/toolchain/deployment-config.ts";
import {
  type BuildDeploymentOptions,
  type BuiltDeployment,
  buildDeployment,
  type DeployedGraph,
} from "../../../src/toolchain/engine/build-deployment.ts";
import { parseWasmModule, type WasmModule } from "../../../src/toolchain/engine/wasm-module.ts";
import { readFixtureGraph } from "../../support/fixture-graphs.ts";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const SECONDS = 1000;
const labels = Buffer.from('["yes","no"]');
const artifacts = new Map([[sha256(labels), labels]]);

let root: string;
let config: DeploymentConfig;
let toy: DeployedGraph;
let matmul: DeployedGraph;
let random: DeployedGraph;
let full: WasmModule;
/** Deployment of all three graphs with the default configuration, in the folder `main`. */
let main: BuiltDeployment;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "edgetier-build-"));
  config = {
    ...(await readDeploymentConfig(PROJECT_ROOT)),
    fallbackEngine: "auto",
    keepFunctions: [],
    warmUpRuns: 2,
  };
  [toy, matmul, random] = await Promise.all([
    readFixtureGraph("toy"),
    readFixtureGraph("int8-matmul"),
    readFixtureGraph("random-normal"),
  ]);
  main = await build("main", [toy, matmul, random]);
  full = parseWasmModule(await readFile(join(ENGINE_FOLDER, "engine.wasm")));
}, 60 * SECONDS);
afterAll(() => rm(root, { recursive: true }));

function build(
  folder: string,
  graphs: readonly DeployedGraph[],
  changes: Partial<DeploymentConfig> = {},
  options: Partial<BuildDeploymentOptions> = {},
): Promise<BuiltDeployment> {
  return buildDeployment({
    graphs,
    config: { ...config, ...changes },
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: join(root, "snapshots"),
    outFolder: join(root, folder),
    ...options,
  });
}

const read = async (folder: string, name: string): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(await readFile(join(root, folder, name)));
const listFiles = async (folder: string) => (await readdir(join(root, folder))).toSorted();
const findFunctions = ({ report }: BuiltDeployment, reason: string) =>
  report.functions.filter(({ why }) => why === reason).map(({ number }) => number);

/** Evaluates deployment.mjs with file names in place of the imported files. */
async function importDeployment(folder: string): Promise<
  Omit<Deployment, "bundled"> & {
    readonly bundled: readonly {
      graph: string;
      head: { size: number; sha256: string };
      bytes: string;
    }[];
  }
> {
  const text = Buffer.from(await read(folder, "deployment.mjs")).toString();
  const names = text.replaceAll(/^import (\w+) from "\.\/(.*)";$/gm, 'const $1 = "$2";');
  return (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(names)}`))
    .default;
}

/** Runs a bundled snapshot, restored in the deployment's engine. */
async function runBundled(
  folder: string,
  graph: DeployedGraph,
  inputs: NamedTensors,
): Promise<NamedTensors> {
  const { engine, bundled } = await importDeployment(folder);
  const snapshot = bundled.find((entry) => entry.graph === graph.sha256);
  if (snapshot === undefined) throw new Error(`${graph.model} is not bundled`);
  const wasm = await WebAssembly.compile(await read(folder, "engine.wasm"));
  const { default: glue } = await import(join(root, folder, "glue.mjs"));
  const session = await restoreSnapshot(
    { ...engine, wasm, glue },
    createBytesSource(await read(folder, snapshot.bytes)),
    snapshot.head,
    graph.sha256,
  );
  return await session.run(inputs);
}

describe("the engine of a deployment", () => {
  it("is stripped to the graphs, within the budget", async () => {
    const { engine, full: fullEngine, fallback } = main.report;
    const wasm = await read("main", "engine.wasm");
    expect(engine).toMatchObject({
      kind: "cut",
      source: fullEngine.sha256,
      sha256: sha256(wasm),
      bytes: wasm.byteLength,
      gzipBytes: gzipSync(wasm, { level: 9 }).byteLength,
    });
    expect(fullEngine.sha256).toBe(sha256(await readFile(join(ENGINE_FOLDER, "engine.wasm"))));
    expect(engine.gzipBytes).toBeLessThanOrEqual(config.engineGzipBytes);
    expect({ cached: main.cached, fallback }).toEqual({ cached: false, fallback: false });
  });

  it("is reported with the reason for keeping each function", () => {
    const { engine, functions, graphs } = main.report;
    const numbers = functions.map(({ number }) => number);
    expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
    expect(functions).toMatchObject(
      functions.map(({ number }) => ({
        number,
        bytes: full.functionBodies[number - full.importedFunctionCount]?.byteLength,
      })),
    );
    const enteredByBoth = findFunctions(main, "toy/edge int8-matmul/edge").length;
    const enteredByToy = findFunctions(main, "toy/edge").length + enteredByBoth;
    const enteredByMatmul = findFunctions(main, "int8-matmul/edge").length + enteredByBoth;
    expect(graphs.map(({ snapshot }) => snapshot?.functionsEntered)).toEqual([
      enteredByToy,
      enteredByMatmul,
      undefined,
    ]);
    expect(findFunctions(main, "called by a kept function").length).toBe(
      functions.length - enteredByToy - enteredByMatmul + enteredByBoth,
    );
    if (engine.kind !== "cut") throw new Error(engine.reason);
    expect({ ...engine, functions: decodeFunctionSet(engine.functions) }).toMatchObject({
      functionCount: numbers.length,
      functions: new Set(numbers),
    });
  });

  it("is validated against the full engine on every graph", () => {
    expect(main.report.validation).toEqual([
      { graph: "toy/edge", inputs: expect.any(Number), different: 0 },
      { graph: "int8-matmul/edge", inputs: expect.any(Number), different: 0 },
    ]);
    for (const { inputs } of main.report.validation) expect(inputs).toBeGreaterThan(5);
  });
});

describe("the snapshots of a deployment", () => {
  it("are bundled for first tiers, and run", async () => {
    const { engine, fallback, bundled, warmUpRuns } = await importDeployment("main");
    expect(engine).toEqual({
      kind: "cut",
      source: main.report.full.sha256,
      functions: main.report.engine.kind === "cut" && main.report.engine.functions,
      wasm: "engine.wasm",
      glue: "glue.mjs",
    });
    expect({ fallback, warmUpRuns, graphs: bundled.map(({ graph }) => graph) }).toEqual({
      fallback: undefined,
      warmUpRuns: 2,
      graphs: [toy.sha256, matmul.sha256],
    });
    expect(await listFiles("main")).toEqual(
      [
        "deployment.mjs",
        "engine.wasm",
        "glue.mjs",
        "report.json",
        ...bundled.map(({ bytes }) => bytes),
      ].toSorted(),
    );
    expect(
      await runBundled("main", matmul, {
        x: { datatype: "UINT8", shape: [2, 3], data: Uint8Array.of(1, 2, 3, 0, 0, 0) },
      }),
    ).toEqual({ y: { datatype: "INT32", shape: [2, 2], data: Int32Array.of(2, 44, 10, 20) } });
    expect(
      await runBundled("main", toy, {
        ids: { datatype: "INT32", shape: [1, 2], data: Int32Array.of(58, 20) },
      }),
    ).toEqual({ logits: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(6, 6) } });
  });

  it("are missing for a graph that is not deterministic, with a reason", () => {
    expect(main.report.graphs).toMatchObject([
      { model: "toy", tier: "edge", sha256: toy.sha256, bundled: true },
      { model: "int8-matmul", bundled: true },
      {
        model: "random-normal",
        tier: "edge",
        sha256: random.sha256,
        bundled: false,
        snapshot: null,
        reason: expect.stringMatching(/./),
      },
    ]);
  });
});

describe("a repeated build", () => {
  it("does nothing for the same inputs, nor for other limits, which only checks use", async () => {
    const before = await read("main", "deployment.mjs");
    expect(await build("main", [toy, matmul, random])).toEqual({
      report: main.report,
      cached: true,
    });
    expect(
      await build("main", [toy, matmul, random], { limits: { ...config.limits, workerBytes: 1 } }),
    ).toMatchObject({ cached: true });
    expect(await read("main", "deployment.mjs")).toEqual(before);
  });

  it(
    "gives the same bytes in another folder, from other snapshots",
    async () => {
      const elsewhere = await build(
        "elsewhere",
        [toy, matmul, random],
        {},
        { snapshotsFolder: join(root, "other-snapshots") },
      );
      expect(elsewhere).toEqual(main);
      expect(await listFiles("elsewhere")).toEqual(await listFiles("main"));
      for (const name of await listFiles("main"))
        expect({ name, sha256: sha256(await read("elsewhere", name)) }).toEqual({
          name,
          sha256: sha256(await read("main", name)),
        });
    },
    60 * SECONDS,
  );
});

describe("a changed build", () => {
  it(
    "replaces the deployment if the configuration has changed",
    async () => {
      await cp(join(root, "main"), join(root, "configured"), { recursive: true });
      const configured = await build(
        "configured",
        [matmul],
        {
          warmUpRuns: 3,
          fallbackEngine: "always",
          bundledMemoryBytes: 0,
          bundledArtifactBytes: labels.byteLength,
        },
        { artifacts },
      );
      expect(configured).toMatchObject({
        cached: false,
        report: {
          engine: { kind: "cut" },
          fallback: true,
          graphs: [
            { model: "int8-matmul", bundled: false, snapshot: { bytes: expect.any(Number) } },
          ],
        },
      });
      expect(await importDeployment("configured")).toMatchObject({
        warmUpRuns: 3,
        bundled: [],
        fallback: {
          kind: "full",
          source: main.report.full.sha256,
          wasm: "full.wasm",
          glue: "glue.mjs",
        },
      });
      const [[digest, file] = []] = (await importDeployment("configured")).artifacts;
      const artifact = Buffer.from(await read("configured", String(file)));
      expect({ digest, artifact }).toEqual({ digest: sha256(labels), artifact: labels });
      expect(await listFiles("configured")).toEqual([
        file,
        "deployment.mjs",
        "engine.wasm",
        "full.wasm",
        "glue.mjs",
        "report.json",
      ]);
      expect(sha256(await read("configured", "full.wasm"))).toBe(main.report.full.sha256);
    },
    60 * SECONDS,
  );
});

describe("a deployment of other graphs", () => {
  it(
    "has the full engine as fallback if a graph has no region tier",
    async () => {
      const alone = await build("alone", [{ ...matmul, hasRegion: false }]);
      expect(alone).toMatchObject({
        cached: false,
        report: { engine: { kind: "cut" }, fallback: true, graphs: [{ bundled: true }] },
      });
      expect(alone.report.functions.length).toBeLessThan(main.report.functions.length);
    },
    60 * SECONDS,
  );

  it("builds again if any other input has changed", async () => {
    const fullEngine = { engine: "full" } as const;
    const changed: [
      graphs: DeployedGraph[],
      changes: Partial<DeploymentConfig>,
      options: Partial<BuildDeploymentOptions>,
    ][] = [
      [[matmul], { ...fullEngine, sessionBudgetBytes: 1 }, {}],
      [[matmul], fullEngine, { trappedFunctions: [{ slot: 1 }] }],
      [[matmul], fullEngine, { artifacts }],
      [[{ ...matmul, tier: "other" }], fullEngine, {}],
      [[{ ...matmul, isFirstTier: false }], fullEngine, {}],
    ];
    for (const [graphs, changes, options] of changed) {
      await build("changed", [matmul], fullEngine);
      expect(await build("changed", graphs, changes, options)).toMatchObject({ cached: false });
      expect(await build("changed", graphs, changes, options)).toMatchObject({ cached: true });
    }
  });
});

describe("kept functions and bundled tiers", () => {
  it(
    "keeps the functions that a trap log and the configuration name, and bundles first tiers only",
    async () => {
      const inMain = new Set(main.report.functions.map(({ number }) => number));
      const [inTable, calledDirectly, configured] = [...new Set(full.tableSlots)].filter(
        (index) =>
          index !== undefined &&
          !inMain.has(index) &&
          (full.functionBodies[index - full.importedFunctionCount]?.byteLength ?? 0) > 200,
      ) as [number, number, number];
      const slot = full.tableSlots.indexOf(inTable);
      const trapped = [
        { slot },
        { function: calledDirectly },
        { slot: 0 },
        { function: [...inMain][0] ?? 0 },
      ];
      const secondTier = { ...toy, isFirstTier: false, hasRegion: false };
      const kept = await build(
        "kept",
        [secondTier],
        { keepFunctions: [configured], fallbackEngine: "never" },
        { trappedFunctions: trapped },
      );
      expect(findFunctions(kept, "trap log")).toEqual(
        [inTable, calledDirectly].toSorted((a, b) => a - b),
      );
      expect(findFunctions(kept, "configuration")).toEqual([configured]);
      expect(kept.report).toMatchObject({
        fallback: false,
        graphs: [{ bundled: false }],
        validation: [{ different: 0 }],
      });
      const readSlot = async (folder: string) =>
        parseWasmModule(await read(folder, "engine.wasm")).tableSlots[slot];
      expect({ kept: await readSlot("kept"), main: await readSlot("main") }).toEqual({
        kept: expect.any(Number),
        main: undefined,
      });
    },
    60 * SECONDS,
  );

  it("bundles first tiers in order as long as they fit the memory budget", async () => {
    const [toyBytes = 0, matmulBytes = 0] = main.report.graphs.map(
      ({ snapshot }) => snapshot?.memoryBytes,
    );
    const buildWithMemory = async (bundledMemoryBytes: number) =>
      (
        await build("memory", [toy, matmul], { engine: "full", bundledMemoryBytes })
      ).report.graphs.map(({ bundled }) => bundled);
    expect(await buildWithMemory(toyBytes + matmulBytes)).toEqual([true, true]);
    expect(await buildWithMemory(toyBytes + matmulBytes - 1)).toEqual([true, false]);
    expect(await buildWithMemory(toyBytes - 1)).toEqual([false, matmulBytes < toyBytes]);
  });
});

const fullEngineCases: readonly {
  readonly cause: string;
  readonly folder: string;
  readonly selectGraphs: () => DeployedGraph[];
  readonly changes: Partial<DeploymentConfig>;
  readonly reason: string;
}[] = [
  {
    cause: "the configuration selects it",
    folder: "full",
    selectGraphs: () => [matmul],
    changes: {
      engine: "full",
      fallbackEngine: "always",
      bundledArtifactBytes: labels.byteLength - 1,
    },
    reason: 'edgetier.engine is "full" in package.json',
  },
  {
    cause: "there is no graph",
    folder: "empty",
    selectGraphs: () => [],
    changes: {},
    reason: "no edge tier has a snapshot",
  },
  {
    cause: "no graph has a snapshot",
    folder: "no-snapshot",
    selectGraphs: () => [random],
    changes: {},
    reason: "no edge tier has a snapshot",
  },
];

describe("the full engine", () => {
  it.each(fullEngineCases)(
    "is deployed if $cause",
    async ({ folder, selectGraphs, changes, reason }) => {
      const graphs = selectGraphs();
      const { report } = await build(folder, graphs, changes, {
        artifacts: folder === "full" ? artifacts : new Map(),
      });
      expect(report).toMatchObject({
        engine: { kind: "full", sha256: report.full.sha256, reason },
        fallback: false,
        functions: [],
        validation: [],
        graphs: graphs.map(({ model }) => ({ model })),
      });
      expect(sha256(await read(folder, "engine.wasm"))).toBe(report.full.sha256);
      expect(await importDeployment(folder)).toMatchObject({
        engine: { kind: "full", source: report.full.sha256 },
        fallback: undefined,
        artifacts: new Map(),
      });
    },
  );

  it("runs the bundled snapshots", async () => {
    await build("full-run", [matmul], { engine: "full" });
    expect(
      await runBundled("full-run", matmul, {
        x: { datatype: "UINT8", shape: [1, 3], data: Uint8Array.of(1, 2, 3) },
      }),
    ).toMatchObject({ y: { data: Int32Array.of(2, 44) } });
  });
});
