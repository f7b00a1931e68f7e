// Bundles the Workers of the cold start benchmark: a folder for workerd for each model and each kind of startup.
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build, type Plugin } from "esbuild";
import {
  ENGINE_FOLDER,
  MODELS_FOLDER,
  PROJECT_ROOT,
  WRANGLER_CONFIG,
} from "../../../../src/cli/local/paths.ts";
import type { DeploymentConfig } from "../../../../src/toolchain/deployment-config.ts";
import {
  buildDeployment,
  type DeployedGraph,
} from "../../../../src/toolchain/engine/build-deployment.ts";
import type { EngineReport } from "../../../../src/toolchain/engine/engine-report.ts";
import {
  createSnapshots,
  type GraphSnapshot,
} from "../../../../src/toolchain/engine/graph-snapshots.ts";
import { createMobileNet } from "../mobilenet.ts";

export const COLD_MODELS = ["intent", "mobilenet"] as const;
export type ColdModel = (typeof COLD_MODELS)[number];
export const STARTUP_KINDS = ["stock", "restored", "restored, cut engine", "module scope"] as const;
export type StartupKind = (typeof STARTUP_KINDS)[number];

interface Size {
  readonly bytes: number;
  readonly gzipBytes: number;
}

export interface ColdWorker {
  readonly model: ColdModel;
  readonly startupKind: StartupKind;
  /** Path of the configuration for `workerd serve`. */
  readonly config: string;
  readonly engine: Size;
  /** The snapshot, or for `stock` the model. */
  readonly artifact: Size;
}

type ColdGraph = DeployedGraph & { readonly model: ColdModel };

const FOLDER = join(PROJECT_ROOT, "dist/bench-cold");
const SESSIONS: Readonly<Record<StartupKind, string>> = {
  stock: "stock.ts",
  restored: "first-request.ts",
  "restored, cut engine": "first-request.ts",
  "module scope": "module-scope.ts",
};

const SNAPSHOTS_FOLDER = join(FOLDER, "snapshots");
const DEPLOYMENT_FOLDER = join(FOLDER, "deployment");

/** The engines and settings that all Workers share. */
interface Engines {
  readonly full: EngineReport["full"];
  readonly stripped: Extract<EngineReport["engine"], { kind: "cut" }>;
  readonly config: DeploymentConfig;
}

/** Always bundles both models, because the engine is stripped for them together. @throws component_failed */
export async function bundleColdWorkers(
  config: DeploymentConfig,
  log: (line: string) => void,
): Promise<ColdWorker[]> {
  const graphs = await createGraphs();
  const { report } = await buildDeployment({
    graphs,
    config,
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: SNAPSHOTS_FOLDER,
    outFolder: DEPLOYMENT_FOLDER,
    log,
  });
  const { engine, full } = report;
  if (engine.kind !== "cut") throw new Error(`the engine was not stripped: ${engine.reason}`);
  const snapshots = await createSnapshots(graphs, {
    engineFolder: ENGINE_FOLDER,
    engineSha256: full.sha256,
    cacheFolder: SNAPSHOTS_FOLDER,
    log,
  });

  const workers: ColdWorker[] = [];
  for (const graph of graphs) {
    const snapshot = snapshots.get(graph.sha256);
    if (snapshot === undefined || "reason" in snapshot)
      throw new Error(`${graph.model} has no snapshot: ${snapshot?.reason}`);
    for (const startupKind of STARTUP_KINDS)
      workers.push(
        await writeWorker(graph, snapshot, startupKind, { full, stripped: engine, config }),
      );
  }
  return workers;
}

async function createGraphs(): Promise<ColdGraph[]> {
  return [
    createGraph(
      "intent",
      new Uint8Array(await readFile(join(MODELS_FOLDER, "intent/artifacts/edge.onnx"))),
      { name: "ids", datatype: "INT32", shape: [-1, -1] },
    ),
    createGraph(
      "mobilenet",
      createMobileNet({ seed: 1, width: 1, resolution: 224, classes: 1000 }),
      { name: "pixels", datatype: "FP32", shape: [-1, 3, 224, 224] },
    ),
  ];
}

/** Writes the folder of one Worker: engine, artifact, script and workerd configuration. */
async function writeWorker(
  { model, bytes, sha256 }: ColdGraph,
  { uncompressed: snapshot }: GraphSnapshot,
  startupKind: StartupKind,
  { full, stripped, config }: Engines,
): Promise<ColdWorker> {
  const isStripped = startupKind !== "stock" && startupKind !== "restored";
  const artifact = startupKind === "stock" ? bytes : snapshot.bytes;
  const facts = {
    ...(isStripped ? { kind: "cut", functions: stripped.functions } : { kind: "full" }),
    source: full.sha256,
    graph: sha256,
    head: snapshot.head,
    warmUpRuns: config.warmUpRuns,
    sessionBudgetBytes: config.sessionBudgetBytes,
  };
  const folder = join(FOLDER, `${model}-${startupKind.replaceAll(/\W+/g, "-")}`);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await copyFile(
    join(isStripped ? DEPLOYMENT_FOLDER : ENGINE_FOLDER, "engine.wasm"),
    join(folder, "engine.wasm"),
  );
  await writeFile(join(folder, "image.bin"), artifact);
  await bundleScript(join(folder, "main.js"), model, startupKind, facts);
  await writeFile(
    join(folder, "config.capnp"),
    createWorkerdConfig(await readFile(WRANGLER_CONFIG, "utf8")),
  );
  const { bytes: engineBytes, gzipBytes: engineGzipBytes } = isStripped ? stripped : full;
  return {
    model,
    startupKind,
    config: join(folder, "config.capnp"),
    engine: { bytes: engineBytes, gzipBytes: engineGzipBytes },
    artifact: {
      bytes: artifact.byteLength,
      gzipBytes: gzipSync(artifact, { level: 9 }).byteLength,
    },
  };
}

function createGraph(
  model: ColdModel,
  bytes: Uint8Array,
  input: DeployedGraph["inputs"][number],
): ColdGraph {
  return {
    model,
    tier: "edge",
    bytes,
    sha256: createHash("sha256").update(bytes).digest("hex"),
    inputs: [input],
    isFirstTier: true,
    hasRegion: true,
  };
}

async function bundleScript(
  outfile: string,
  model: ColdModel,
  startupKind: StartupKind,
  facts: object,
): Promise<void> {
  const files: Readonly<Record<string, string>> = {
    "cold:input": join(import.meta.dirname, `${model}-input.ts`),
    "cold:session": join(import.meta.dirname, SESSIONS[startupKind]),
    "cold:glue.mjs": join(ENGINE_FOLDER, "glue.mjs"),
  };
  const coldPlugin: Plugin = {
    name: "cold",
    setup(bundler) {
      bundler.onResolve({ filter: /^cold:/ }, ({ path }) => {
        if (path === "cold:facts") return { path, namespace: "facts" };
        const file = files[path];
        return file === undefined
          ? { path: `./${path.slice("cold:".length)}`, external: true }
          : { path: file };
      });
      bundler.onLoad({ filter: /./, namespace: "facts" }, () => ({
        contents: JSON.stringify(facts),
        loader: "json",
      }));
    },
  };
  // The last three belong to branches for Node, which workerd never takes.
  const external = ["cloudflare:*", "module", "worker_threads", "node:*"];
  await build({
    entryPoints: [join(import.meta.dirname, "worker.ts")],
    outfile,
    bundle: true,
    format: "esm",
    target: "es2024",
    minify: true,
    external,
    plugins: [coldPlugin],
    logLevel: "error",
  });
}

/** workerd's configuration format (workerd.capnp). The command line sets the port at startup; `SEEDS` comes from the environment. */
function createWorkerdConfig(wranglerToml: string): string {
  const date = /^compatibility_date = (".*")/m.exec(wranglerToml)?.[1] ?? '""';
  const flags = /^compatibility_flags = \[(.*)\]/m.exec(wranglerToml)?.[1] ?? "";
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [ (name = "edge", worker = .edge) ],
  sockets = [ (name = "http", http = (), service = "edge") ]
);
const edge :Workerd.Worker = (
  modules = [
    (name = "main.js", esModule = embed "main.js"), (name = "engine.wasm", wasm = embed "engine.wasm"), (name = "image.bin", data = embed "image.bin")
  ],
  compatibilityDate = ${date}, compatibilityFlags = [${flags}],
  bindings = [ (name = "SEEDS", fromEnvironment = "SEEDS") ]
);
`;
}
