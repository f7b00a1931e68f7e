// Makes what the Worker bundles: an engine cut to the deployment's models, validated in workerd, and the snapshots that
// are restored at module scope. The full engine takes the cut one's place until that has passed its tests.

import { gzipSync } from "node:zlib";
import { readImageCodecs } from "../../runtime/native/image-codecs.ts";
import { PAGE_BYTES } from "../../runtime/wasm/engine.ts";
import { encodeFunctions } from "../../runtime/wasm/function-set.ts";
import { SNAPSHOT_FORMAT } from "../../runtime/wasm/snapshot-format.ts";
import type { CutFunction } from "../../runtime/wasm/traps.ts";
import type { DeploymentConfig } from "../deployment-config.ts";
import { digestOf } from "../digest.ts";
import { cutToModels, type Usable } from "./cut-to-models.ts";
import { isWhole, readReport, writeDeployment } from "./deployment-folder.ts";
import type { FittedEngine } from "./fit.ts";
import { prepareEngine } from "./prepare.ts";
import type { EngineReport } from "./report.ts";
import { type EdgeGraph, type GraphSnapshot, makeSnapshots, type NoSnapshot } from "./snapshots.ts";

/** Raise it when the same inputs give another deployment. */
const RECIPE = 5;

/** A graph of the deployment. */
export interface DeployedGraph extends EdgeGraph {
  /** Its model's first tier: its snapshot is bundled. */
  readonly first: boolean;
  /** Whether its model has a region tier, which can answer in its place. */
  readonly hasRegion: boolean;
}

export interface BuildOptions {
  readonly graphs: readonly DeployedGraph[];
  readonly config: DeploymentConfig;
  /** Small files that the graphs' models need at the edge, by SHA-256. */
  readonly artifacts?: ReadonlyMap<string, Uint8Array>;
  /** Whether the graphs' models take images, so that the Worker has to decode them. */
  readonly images?: boolean;
  /** More functions to keep, as an isolate's log named them. */
  readonly trapped?: readonly CutFunction[];
  /** Of the full engine. */
  readonly engineFolder: string;
  readonly snapshotsFolder: string;
  /** Of the deployment. */
  readonly outFolder: string;
  readonly log?: (line: string) => void;
}

export interface BuiltDeployment {
  readonly report: EngineReport;
  /** Nothing had to be made. */
  readonly cached: boolean;
}

/** @throws component_failed */
export async function buildDeployment(options: BuildOptions): Promise<BuiltDeployment> {
  const { graphs, config, engineFolder, outFolder, log = () => {} } = options;
  const full = await prepareEngine({ outDir: engineFolder, log });
  const inputs = inputsDigest(options, full.sha256);
  const existing = await readReport(outFolder);
  if (existing?.inputs === inputs && (await isWhole(outFolder, existing)))
    return { report: existing, cached: true };

  const snapshots = await makeSnapshots(graphs, {
    engineFolder,
    engineSha256: full.sha256,
    cacheFolder: options.snapshotsFolder,
    log,
  });
  const usable = graphs.flatMap((graph) => {
    const snapshot = snapshots.get(graph.sha256);
    return snapshot === undefined || "reason" in snapshot ? [] : [{ graph, snapshot }];
  });
  const outcome =
    config.engine === "full"
      ? { kind: "full" as const, reason: "the configuration says so" }
      : await cutToModels(usable, { ...options, source: full.sha256, log });

  const bundled = chooseBundled(usable, config);
  const withFallback =
    outcome.kind === "cut" &&
    (config.fallbackEngine === "always" ||
      (config.fallbackEngine === "auto" && graphs.some(({ hasRegion }) => !hasRegion)));
  const report: EngineReport = {
    inputs,
    engine:
      outcome.kind === "cut"
        ? engineOf(outcome.engine, full)
        : {
            kind: "full",
            source: full.sha256,
            sha256: full.sha256,
            bytes: full.bytes,
            gzipBytes: full.gzipBytes,
            reason: outcome.reason,
          },
    full: { sha256: full.sha256, bytes: full.bytes, gzipBytes: full.gzipBytes },
    fallback: withFallback,
    graphs: graphs.map((graph) =>
      reportGraph(
        graph,
        snapshots.get(graph.sha256),
        bundled.some(({ graph: one }) => one.sha256 === graph.sha256),
      ),
    ),
    functions: outcome.kind === "cut" ? [...outcome.functions] : [],
    validation: outcome.kind === "cut" ? [...outcome.validation] : [],
  };
  await writeDeployment(outFolder, {
    report,
    cutWasm: outcome.kind === "cut" ? outcome.engine.wasm : undefined,
    bundled: bundled.map(({ graph, snapshot }) => ({
      graph: graph.sha256,
      snapshot: snapshot.plain,
    })),
    artifacts: chooseArtifacts(options),
    images:
      options.images === true
        ? { codecs: await readImageCodecs(), maxMemoryBytes: config.imageMemoryBytes }
        : undefined,
    warmUpRuns: config.warmUpRuns,
    sessionBudgetBytes: config.sessionBudgetBytes,
    engineFolder,
  });
  return { report, cached: false };
}

function engineOf(engine: FittedEngine, full: { readonly sha256: string }): EngineReport["engine"] {
  return {
    kind: "cut",
    source: full.sha256,
    sha256: digestOf(engine.wasm),
    bytes: engine.wasm.byteLength,
    gzipBytes: engine.gzipBytes,
    functions: encodeFunctions(engine.keep),
    functionCount: engine.keep.size,
  };
}

/** First tiers, as long as there is memory for them. */
function chooseBundled(
  usable: readonly Usable<DeployedGraph>[],
  { bundledMemoryBytes }: DeploymentConfig,
): Usable<DeployedGraph>[] {
  let left = bundledMemoryBytes;
  const seen = new Set<string>();
  return usable.filter(({ graph, snapshot }) => {
    if (!graph.first || seen.has(graph.sha256) || snapshot.pageCount * PAGE_BYTES > left)
      return false;
    seen.add(graph.sha256);
    left -= snapshot.pageCount * PAGE_BYTES;
    return true;
  });
}

function chooseArtifacts({
  artifacts = new Map(),
  config,
}: BuildOptions): ReadonlyMap<string, Uint8Array> {
  const total = [...artifacts.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  return total <= config.bundledArtifactBytes ? artifacts : new Map();
}

function reportGraph(
  { model, tier, sha256 }: DeployedGraph,
  snapshot: GraphSnapshot | NoSnapshot | undefined,
  bundled: boolean,
): EngineReport["graphs"][number] {
  const base = { model, tier, sha256, bundled };
  if (snapshot === undefined || "reason" in snapshot)
    return { ...base, snapshot: null, reason: snapshot?.reason ?? "it was not made" };
  const { plain, pageCount, profile } = snapshot;
  return {
    ...base,
    snapshot: {
      bytes: plain.bytes.byteLength,
      gzipBytes: gzipSync(plain.bytes).byteLength,
      memoryBytes: pageCount * PAGE_BYTES,
      functionsEntered: profile.entered.length,
    },
  };
}

function inputsDigest(
  { graphs, config, artifacts = new Map(), images = false, trapped = [] }: BuildOptions,
  engine: string,
): string {
  const { limits: _limits, ...choices } = config;
  const facts = [
    RECIPE,
    SNAPSHOT_FORMAT,
    engine,
    choices,
    trapped,
    [...artifacts.keys()],
    images,
    graphs.map(({ bytes: _bytes, ...graph }) => graph),
  ];
  return digestOf(JSON.stringify(facts));
}
