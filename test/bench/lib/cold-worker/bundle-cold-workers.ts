// Makes the Workers of the cold start benchmark: for each model and each way of starting, a folder for workerd.
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build, type Plugin } from "esbuild";
import type { DeploymentConfig } from "../../../../src/toolchain/deployment-config.ts";
import {
  buildDeployment,
  type DeployedGraph,
} from "../../../../src/toolchain/engine/build-deployment.ts";
import { createSnapshots } from "../../../../src/toolchain/engine/graph-snapshots.ts";
import {
  ENGINE_FOLDER,
  MODELS_FOLDER,
  PROJECT_ROOT,
  WRANGLER_CONFIG,
} from "../../../../src/cli/local/paths.ts";
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
  /** For `workerd serve`. */
  readonly config: string;
  readonly engine: Size;
  /** The snapshot, or for `stock` the model. */
  readonly artifact: Size;
}

const FOLDER = join(PROJECT_ROOT, "dist/bench-cold");
const SESSIONS: Readonly<Record<StartupKind, string>> = {
  stock: "stock.ts",
  restored: "first-request.ts",
  "restored, cut engine": "first-request.ts",
  "module scope": "module-scope.ts",
};

/** Both models, whichever are measured: the engine is cut for them together. @throws component_failed */
export async function bundleColdWorkers(
  config: DeploymentConfig,
  log: (line: string) => void,
): Promise<ColdWorker[]> {
  const graphs: DeployedGraph[] = [
    graphOf(
      "intent",
      new Uint8Array(await readFile(join(MODELS_FOLDER, "intent/artifacts/edge.onnx"))),
      { name: "ids", datatype: "INT32", shape: [-1, -1] },
    ),
    graphOf("mobilenet", createMobileNet({ seed: 1, width: 1, resolution: 224, classes: 1000 }), {
      name: "pixels",
      datatype: "FP32",
      shape: [-1, 3, 224, 224],
    }),
  ];
  const folders = {
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: join(FOLDER, "snapshots"),
    outFolder: join(FOLDER, "deployment"),
  };
  const { report } = await buildDeployment({ graphs, config, ...folders, log });
  const { engine, full } = report;
  if (engine.kind !== "cut") throw new Error(`the engine was not cut: ${engine.reason}`);
  const snapshots = await createSnapshots(graphs, {
    engineFolder: ENGINE_FOLDER,
    engineSha256: full.sha256,
    cacheFolder: folders.snapshotsFolder,
    log,
  });

  const workers: ColdWorker[] = [];
  for (const { model, bytes, sha256 } of graphs) {
    const snapshot = snapshots.get(sha256);
    if (snapshot === undefined || "reason" in snapshot)
      throw new Error(`${model} has no snapshot: ${snapshot?.reason}`);
    const { head, bytes: snapshotBytes } = snapshot.uncompressed;
    for (const way of STARTUP_KINDS) {
      const isCut = way !== "stock" && way !== "restored";
      const image = way === "stock" ? bytes : snapshotBytes;
      const facts = {
        ...(isCut ? { kind: "cut", functions: engine.functions } : { kind: "full" }),
        source: full.sha256,
        graph: sha256,
        head,
        warmUpRuns: config.warmUpRuns,
        sessionBudgetBytes: config.sessionBudgetBytes,
      };
      const folder = join(FOLDER, `${model}-${way.replaceAll(/\W+/g, "-")}`);
      await rm(folder, { recursive: true, force: true });
      await mkdir(folder, { recursive: true });
      await copyFile(
        join(isCut ? folders.outFolder : ENGINE_FOLDER, "engine.wasm"),
        join(folder, "engine.wasm"),
      );
      await writeFile(join(folder, "image.bin"), image);
      await bundleScript(join(folder, "main.js"), model as ColdModel, way, facts);
      await writeFile(
        join(folder, "config.capnp"),
        workerdConfig(await readFile(WRANGLER_CONFIG, "utf8")),
      );
      const { bytes: engineBytes, gzipBytes } = isCut ? engine : full;
      workers.push({
        model: model as ColdModel,
        startupKind: way,
        config: join(folder, "config.capnp"),
        engine: { bytes: engineBytes, gzipBytes },
        artifact: { bytes: image.byteLength, gzipBytes: gzipSync(image, { level: 9 }).byteLength },
      });
    }
  }
  return workers;
}

function graphOf(
  model: ColdModel,
  bytes: Uint8Array,
  input: DeployedGraph["inputs"][number],
): DeployedGraph {
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
  way: StartupKind,
  facts: object,
): Promise<void> {
  const local: Readonly<Record<string, string>> = {
    "cold:input": join(import.meta.dirname, `${model}-input.ts`),
    "cold:session": join(import.meta.dirname, SESSIONS[way]),
    "cold:glue.mjs": join(ENGINE_FOLDER, "glue.mjs"),
  };
  const cold: Plugin = {
    name: "cold",
    setup(bundler) {
      bundler.onResolve({ filter: /^cold:/ }, ({ path }) => {
        if (path === "cold:facts") return { path, namespace: "facts" };
        const file = local[path];
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
  const external = ["cloudflare:*", "module", "worker_threads", "node:*"]; // the last three: branches for Node, never taken
  await build({
    entryPoints: [join(import.meta.dirname, "worker.ts")],
    outfile,
    bundle: true,
    format: "esm",
    target: "es2024",
    minify: true,
    external,
    plugins: [cold],
    logLevel: "error",
  });
}

/** workerd's own configuration format (workerd.capnp). The port is given at the start; the seeds are, in the environment. */
function workerdConfig(wranglerToml: string): string {
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
