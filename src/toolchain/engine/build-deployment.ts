// Makes what the Worker bundles: an engine cut to the deployment's models, validated in workerd, and the snapshots that
// are restored at module scope. The full engine takes the cut one's place until that has passed its tests.

import { gzipSync } from "node:zlib";
import { readImageCodecFiles } from "../../runtime/native/image-codecs.ts";
import { PAGE_BYTES } from "../../runtime/wasm/engine.ts";
import { encodeFunctionSet } from "../../runtime/wasm/function-set.ts";
import { SNAPSHOT_FORMAT } from "../../runtime/wasm/snapshot-format.ts";
import type { StrippedFunction } from "../../runtime/wasm/traps.ts";
import type { DeploymentConfig } from "../deployment-config.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import { stripToModels, type SnapshottedGraph } from "./strip-to-models.ts";
import {
  isDeploymentComplete,
  readEngineReport,
  writeDeploymentFolder,
} from "./deployment-folder.ts";
import type { StrippedEngine } from "./strip-to-budget.ts";
import { prepareEngine } from "./prepare-engine.ts";
import type { EngineReport } from "./engine-report.ts";
import {
  type EdgeGraph,
  type GraphSnapshot,
  createSnapshots,
  type SnapshotFailure,
} from "./graph-snapshots.ts";

/** Raise it when the same inputs give another deployment. */
const RECIPE_VERSION = 5;

/** A graph of the deployment. */
export interface DeployedGraph extends EdgeGraph {
  /** Its model's first tier: its snapshot is bundled. */
  readonly isFirstTier: boolean;
  /** Whether its model has a region tier, which can answer in its place. */
  readonly hasRegion: boolean;
}

export interface BuildDeploymentOptions {
  readonly graphs: readonly DeployedGraph[];
  readonly config: DeploymentConfig;
  /** Small files that the graphs' models need at the edge, by SHA-256. */
  readonly artifacts?: ReadonlyMap<string, Uint8Array>;
  /** Whether the graphs' models take images, so that the Worker has to decode them. */
  readonly hasImageTier?: boolean;
  /** More functions to keep, as an isolate's log named them. */
  readonly trappedFunctions?: readonly StrippedFunction[];
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
export async function buildDeployment(options: BuildDeploymentOptions): Promise<BuiltDeployment> {
  const { graphs, config, engineFolder, outFolder, log = () => {} } = options;
  const full = await prepareEngine({ outDir: engineFolder, log });
  const inputs = computeInputsDigest(options, full.sha256);
  const existing = await readEngineReport(outFolder);
  if (existing?.inputs === inputs && (await isDeploymentComplete(outFolder, existing)))
    return { report: existing, cached: true };

  const snapshots = await createSnapshots(graphs, {
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
      : await stripToModels(usable, { ...options, fullEngineSha256: full.sha256, log });

  const bundled = selectBundledGraphs(usable, config);
  const withFallback =
    outcome.kind === "stripped" &&
    (config.fallbackEngine === "always" ||
      (config.fallbackEngine === "auto" && graphs.some(({ hasRegion }) => !hasRegion)));
  const report: EngineReport = {
    inputs,
    engine:
      outcome.kind === "stripped"
        ? describeEngine(outcome.engine, full)
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
      describeGraph(
        graph,
        snapshots.get(graph.sha256),
        bundled.some(({ graph: one }) => one.sha256 === graph.sha256),
      ),
    ),
    functions: outcome.kind === "stripped" ? [...outcome.functions] : [],
    validation: outcome.kind === "stripped" ? [...outcome.validation] : [],
  };
  await writeDeploymentFolder(outFolder, {
    report,
    strippedWasm: outcome.kind === "stripped" ? outcome.engine.wasm : undefined,
    bundled: bundled.map(({ graph, snapshot }) => ({
      graph: graph.sha256,
      snapshot: snapshot.uncompressed,
    })),
    artifacts: selectBundledArtifacts(options),
    imageDecoding:
      options.hasImageTier === true
        ? { codecs: await readImageCodecFiles(), maxMemoryBytes: config.imageMemoryBytes }
        : undefined,
    warmUpRuns: config.warmUpRuns,
    sessionBudgetBytes: config.sessionBudgetBytes,
    engineFolder,
  });
  return { report, cached: false };
}

function describeEngine(
  engine: StrippedEngine,
  full: { readonly sha256: string },
): EngineReport["engine"] {
  return {
    kind: "cut",
    source: full.sha256,
    sha256: sha256HexSync(engine.wasm),
    bytes: engine.wasm.byteLength,
    gzipBytes: engine.gzipBytes,
    functions: encodeFunctionSet(engine.keepFunctions),
    functionCount: engine.keepFunctions.size,
  };
}

/** First tiers, as long as there is memory for them. */
function selectBundledGraphs(
  usable: readonly SnapshottedGraph<DeployedGraph>[],
  { bundledMemoryBytes }: DeploymentConfig,
): SnapshottedGraph<DeployedGraph>[] {
  let left = bundledMemoryBytes;
  const seen = new Set<string>();
  return usable.filter(({ graph, snapshot }) => {
    if (!graph.isFirstTier || seen.has(graph.sha256) || snapshot.pageCount * PAGE_BYTES > left)
      return false;
    seen.add(graph.sha256);
    left -= snapshot.pageCount * PAGE_BYTES;
    return true;
  });
}

function selectBundledArtifacts({
  artifacts = new Map(),
  config,
}: BuildDeploymentOptions): ReadonlyMap<string, Uint8Array> {
  const total = [...artifacts.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  return total <= config.bundledArtifactBytes ? artifacts : new Map();
}

function describeGraph(
  { model, tier, sha256 }: DeployedGraph,
  snapshot: GraphSnapshot | SnapshotFailure | undefined,
  bundled: boolean,
): EngineReport["graphs"][number] {
  const base = { model, tier, sha256, bundled };
  if (snapshot === undefined || "reason" in snapshot)
    return { ...base, snapshot: null, reason: snapshot?.reason ?? "it was not made" };
  const { uncompressed: plain, pageCount, profile } = snapshot;
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

function computeInputsDigest(
  {
    graphs,
    config,
    artifacts = new Map(),
    hasImageTier: images = false,
    trappedFunctions: trapped = [],
  }: BuildDeploymentOptions,
  engine: string,
): string {
  const { limits: _limits, ...choices } = config;
  const facts = [
    RECIPE_VERSION,
    SNAPSHOT_FORMAT,
    engine,
    choices,
    trapped,
    [...artifacts.keys()],
    images,
    graphs.map(({ bytes: _bytes, ...graph }) => graph),
  ];
  return sha256HexSync(JSON.stringify(facts));
}
