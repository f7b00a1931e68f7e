// Deployments of small graphs, made as `edgetier engine build` makes them: cut, validated in workerd, cached, the same each
// time; and what is deployed where that cannot be.
import { createHash } from "node:crypto";
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type BuildDeploymentOptions,
  type BuiltDeployment,
  buildDeployment,
  type DeployedGraph,
} from "../../../src/toolchain/engine/build-deployment.ts";
import {
  type DeploymentConfig,
  readDeploymentConfig,
} from "../../../src/toolchain/deployment-config.ts";
import { parseWasmModule, type WasmModule } from "../../../src/toolchain/engine/wasm-module.ts";
import { ENGINE_FOLDER, PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createBytesSource } from "../../../src/runtime/wasm/byte-source.ts";
import type { Deployment } from "../../../src/runtime/wasm/deployment.ts";
import { decodeFunctionSet } from "../../../src/runtime/wasm/function-set.ts";
import { restoreSnapshot } from "../../../src/runtime/wasm/restore-snapshot.ts";
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
/** Of all three, with the default configuration, in the folder `main`; snapshots are kept in `snapshots`. */
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
const filesOf = async (folder: string) => (await readdir(join(root, folder))).toSorted();
const numbersWith = ({ report }: BuiltDeployment, why: string) =>
  report.functions.filter((one) => one.why === why).map(({ number }) => number);

/** What deployment.mjs exports, with files' names in place of what is imported from them. */
async function exportOf(folder: string): Promise<
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

/** A run of a bundled snapshot, restored in the deployment's engine. */
async function runBundled(
  folder: string,
  graph: DeployedGraph,
  inputs: NamedTensors,
): Promise<NamedTensors> {
  const { engine, bundled } = await exportOf(folder);
  const snapshot = bundled.find((one) => one.graph === graph.sha256);
  if (snapshot === undefined) throw new Error(`${graph.model} is not bundled`);
  const [wasm, { default: glue }] = [
    await WebAssembly.compile(await read(folder, "engine.wasm")),
    await import(join(root, folder, "glue.mjs")),
  ];
  return await (
    await restoreSnapshot(
      { ...engine, wasm, glue },
      createBytesSource(await read(folder, snapshot.bytes)),
      snapshot.head,
      graph.sha256,
    )
  ).run(inputs);
}

describe("a deployment", () => {
  it("has an engine cut to its graphs, within the budget", async () => {
    const { engine, full: whole, fallback } = main.report;
    const wasm = await read("main", "engine.wasm");
    expect(engine).toMatchObject({
      kind: "cut",
      source: whole.sha256,
      sha256: sha256(wasm),
      bytes: wasm.byteLength,
      gzipBytes: gzipSync(wasm, { level: 9 }).byteLength,
    });
    expect(whole.sha256).toBe(sha256(await readFile(join(ENGINE_FOLDER, "engine.wasm"))));
    expect(engine.gzipBytes).toBeLessThanOrEqual(config.engineGzipBytes);
    expect({ cached: main.cached, fallback }).toEqual({ cached: false, fallback: false });
  });

  it("says of every function why it was kept", () => {
    const { engine, functions, graphs } = main.report;
    const numbers = functions.map(({ number }) => number);
    expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
    expect(
      functions.every(
        ({ number, bytes }) =>
          full.functionBodies[number - full.importedFunctionCount]?.byteLength === bytes,
      ),
    ).toBe(true);
    const both = numbersWith(main, "toy/edge int8-matmul/edge").length;
    const each = ["toy/edge", "int8-matmul/edge"].map(
      (why) => numbersWith(main, why).length + both,
    );
    expect(graphs.map(({ snapshot }) => snapshot?.functionsEntered)).toEqual([...each, undefined]);
    expect(numbersWith(main, "called by one that is kept").length).toBe(
      functions.length - (each[0] ?? 0) - (each[1] ?? 0) + both,
    );
    if (engine.kind !== "cut") throw new Error(engine.reason);
    expect([engine.functionCount, decodeFunctionSet(engine.functions)]).toEqual([
      numbers.length,
      new Set(numbers),
    ]);
  });

  it("was compared with the full engine, on every graph", () => {
    expect(main.report.validation).toEqual([
      { graph: "toy/edge", inputs: expect.any(Number), different: 0 },
      { graph: "int8-matmul/edge", inputs: expect.any(Number), different: 0 },
    ]);
    for (const { inputs } of main.report.validation) expect(inputs).toBeGreaterThan(5);
  });

  it("bundles the snapshots of first tiers, which run", async () => {
    const { engine, fallback, bundled, warmUpRuns } = await exportOf("main");
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
    expect(await filesOf("main")).toEqual(
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

  it("lists a graph of which no snapshot can be had, with the reason", () => {
    expect(main.report.graphs).toMatchObject([
      { model: "toy", tier: "edge", sha256: toy.sha256, bundled: true },
      { model: "int8-matmul", bundled: true },
      {
        model: "random-normal",
        tier: "edge",
        sha256: random.sha256,
        bundled: false,
        snapshot: null,
        reason: expect.stringContaining("same input in two ways"),
      },
    ]);
  });

  it("is not made again for the same inputs, nor for other limits, which only tests look at", async () => {
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
    "is the same bytes when it is made elsewhere, from nothing",
    async () => {
      const elsewhere = await build(
        "elsewhere",
        [toy, matmul, random],
        {},
        { snapshotsFolder: join(root, "other-snapshots") },
      );
      expect(elsewhere).toEqual(main);
      expect(await filesOf("elsewhere")).toEqual(await filesOf("main"));
      for (const name of await filesOf("main"))
        expect([name, sha256(await read("elsewhere", name))]).toEqual([
          name,
          sha256(await read("main", name)),
        ]);
    },
    60 * SECONDS,
  );
});

describe("another deployment", () => {
  it(
    "is made for another configuration, in place of the one that is there",
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
      expect(await exportOf("configured")).toMatchObject({
        warmUpRuns: 3,
        bundled: [],
        fallback: {
          kind: "full",
          source: main.report.full.sha256,
          wasm: "full.wasm",
          glue: "glue.mjs",
        },
      });
      const [[digest, file] = []] = (await exportOf("configured")).artifacts;
      expect([digest, Buffer.from(await read("configured", String(file)))]).toEqual([
        sha256(labels),
        labels,
      ]);
      expect(await filesOf("configured")).toEqual([
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

  it(
    "is made for other graphs; one without a region has the full engine to fall back on",
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

  it(
    "keeps what a log and the configuration name, and says so; a tier that is not the first is not bundled",
    async () => {
      const inMain = new Set(main.report.functions.map(({ number }) => number));
      const [inTable, called, configured] = [...new Set(full.tableSlots)].filter(
        (index) =>
          index !== undefined &&
          !inMain.has(index) &&
          (full.functionBodies[index - full.importedFunctionCount]?.byteLength ?? 0) > 200,
      ) as [number, number, number];
      const slot = full.tableSlots.indexOf(inTable);
      const trapped = [
        { slot },
        { function: called },
        { slot: 0 },
        { function: [...inMain][0] ?? 0 },
      ];
      const second = { ...toy, isFirstTier: false, hasRegion: false };
      const kept = await build(
        "kept",
        [second],
        { keepFunctions: [configured], fallbackEngine: "never" },
        { trappedFunctions: trapped },
      );
      expect(numbersWith(kept, "trap log")).toEqual([inTable, called].toSorted((a, b) => a - b));
      expect(numbersWith(kept, "configuration")).toEqual([configured]);
      expect(kept.report).toMatchObject({
        fallback: false,
        graphs: [{ bundled: false }],
        validation: [{ different: 0 }],
      });
      const slotsOf = async (folder: string) =>
        parseWasmModule(await read(folder, "engine.wasm")).tableSlots;
      expect([(await slotsOf("kept"))[slot], (await slotsOf("main"))[slot]]).toEqual([
        expect.any(Number),
        undefined,
      ]);
    },
    60 * SECONDS,
  );

  it("is made for anything else that it depends on", async () => {
    const whole = { engine: "full" } as const;
    const changed: [
      graphs: DeployedGraph[],
      changes: Partial<DeploymentConfig>,
      options: Partial<BuildDeploymentOptions>,
    ][] = [
      [[matmul], { ...whole, sessionBudgetBytes: 1 }, {}],
      [[matmul], whole, { trappedFunctions: [{ slot: 1 }] }],
      [[matmul], whole, { artifacts }],
      [[{ ...matmul, tier: "other" }], whole, {}],
      [[{ ...matmul, isFirstTier: false }], whole, {}],
    ];
    for (const [graphs, changes, options] of changed) {
      await build("changed", [matmul], whole);
      expect(await build("changed", graphs, changes, options)).toMatchObject({ cached: false });
      expect(await build("changed", graphs, changes, options)).toMatchObject({ cached: true });
    }
  });

  it("bundles first tiers as long as there is memory for them, in their order", async () => {
    const [inToy = 0, inMatmul = 0] = main.report.graphs.map(
      ({ snapshot }) => snapshot?.memoryBytes,
    );
    const bundledWith = async (bundledMemoryBytes: number) =>
      (
        await build("memory", [toy, matmul], { engine: "full", bundledMemoryBytes })
      ).report.graphs.map(({ bundled }) => bundled);
    expect(await bundledWith(inToy + inMatmul)).toEqual([true, true]);
    expect(await bundledWith(inToy + inMatmul - 1)).toEqual([true, false]);
    expect(await bundledWith(inToy - 1)).toEqual([false, inMatmul < inToy]);
  });

  it("is the full engine where the configuration says so, where there is no graph, and where no graph has a snapshot", async () => {
    const cases: [
      folder: string,
      graphs: DeployedGraph[],
      changes: Partial<DeploymentConfig>,
      reason: string,
    ][] = [
      [
        "full",
        [matmul],
        { engine: "full", fallbackEngine: "always", bundledArtifactBytes: labels.byteLength - 1 },
        "the configuration says so",
      ],
      ["empty", [], {}, "no edge tier has a snapshot"],
      ["no-snapshot", [random], {}, "no edge tier has a snapshot"],
    ];
    for (const [folder, graphs, changes, reason] of cases) {
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
      expect(await exportOf(folder)).toMatchObject({
        engine: { kind: "full", source: report.full.sha256 },
        fallback: undefined,
        artifacts: new Map(),
      });
    }
    expect(
      await runBundled("full", matmul, {
        x: { datatype: "UINT8", shape: [1, 3], data: Uint8Array.of(1, 2, 3) },
      }),
    ).toMatchObject({ y: { data: Int32Array.of(2, 44) } });
  });
});
