// Builds the files that the Worker bundles: an engine stripped to the deployment's models, and the snapshots that are
// restored at module scope. If the stripped engine fails its validation in workerd, the full engine is deployed.

import { gzipSync } from "node:zlib";
import { readImageCodecFiles } from "../../runtime/native/image-codecs.ts";
import { PAGE_BYTES } from "../../runtime/wasm/engine.ts";
import { encodeFunctionSet } from "../../runtime/wasm/function-set.ts";
import { SNAPSHOT_FORMAT } from "../../runtime/wasm/snapshot-format.ts";
import type { StrippedFunction } from "../../runtime/wasm/traps.ts";
import type { DeploymentConfig } from "../deployment-config.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import {
  isDeploymentComplete,
  readEngineReport,
  writeDeploymentFolder,
} from "./deployment-folder.ts";
import type { EngineReport } from "./engine-report.ts";
import {
  type EdgeGraph,
  type GraphSnapshot,
  createSnapshots,
  type SnapshotFailure,
} from "./graph-snapshots.ts";
import { type PreparedEngine, prepareEngine } from "./prepare-engine.ts";
import type { StrippedEngine } from "./strip-to-budget.ts";
import { stripToModels, type SnapshottedGraph, type StripOutcome } from "./strip-to-models.ts";

/** Raise it if a change of this code gives another deployment for the same inputs. */
const RECIPE_VERSION = 5;

export interface DeployedGraph extends EdgeGraph {
  /** Whether the graph is its model's first tier, whose snapshot is bundled. */
  readonly isFirstTier: boolean;
  /** Whether the model has a region tier, which can answer instead. */
  readonly hasRegion: boolean;
}

export interface BuildDeploymentOptions {
  readonly graphs: readonly DeployedGraph[];
  readonly config: DeploymentConfig;
  /** Small files that the models need at the edge, by SHA-256. */
  readonly artifacts?: ReadonlyMap<string, Uint8Array>;
  /** Whether a model takes images, so that the Worker must decode them. */
  readonly hasImageTier?: boolean;
  /** Further functions to keep, as an isolate's log reports them. */
  readonly trappedFunctions?: readonly StrippedFunction[];
  /** Folder of the full engine. */
  readonly engineFolder: string;
  readonly snapshotsFolder: string;
  /** The deployment is written there. */
  readonly outFolder: string;
  readonly log?: (line: string) => void;
}

export interface BuiltDeployment {
  readonly report: EngineReport;
  /** Whether an up-to-date deployment was there already. */
  readonly cached: boolean;
}

/** Builds the deployment unless `outFolder` has an up-to-date one. @throws component_failed */
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
  const snapshotted = graphs.flatMap((graph) => {
    const snapshot = snapshots.get(graph.sha256);
    return snapshot === undefined || "reason" in snapshot ? [] : [{ graph, snapshot }];
  });
  const outcome: StripOutcome =
    config.engine === "full"
      ? { kind: "full", reason: 'edgetier.engine is "full" in package.json' }
      : await stripToModels(snapshotted, { ...options, fullEngineSha256: full.sha256, log });

  const bundled = selectBundledGraphs(snapshotted, config);
  const bundledIds = new Set(bundled.map(({ graph }) => graph.sha256));
  const report: EngineReport = {
    inputs,
    ...describeOutcome(outcome, full),
    fallback: outcome.kind === "stripped" && needsFallbackEngine(options),
    graphs: graphs.map((graph) =>
      describeGraph(graph, snapshots.get(graph.sha256), bundledIds.has(graph.sha256)),
    ),
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

const needsFallbackEngine = ({ config, graphs }: BuildDeploymentOptions): boolean =>
  config.fallbackEngine === "always" ||
  (config.fallbackEngine === "auto" && graphs.some(({ hasRegion }) => !hasRegion));

function describeOutcome(
  outcome: StripOutcome,
  { sha256, bytes, gzipBytes }: PreparedEngine,
): Pick<EngineReport, "engine" | "full" | "functions" | "validation"> {
  const full = { sha256, bytes, gzipBytes };
  return outcome.kind === "stripped"
    ? {
        engine: describeStrippedEngine(outcome.engine, sha256),
        full,
        functions: [...outcome.functions],
        validation: [...outcome.validation],
      }
    : {
        engine: { kind: "full", source: sha256, ...full, reason: outcome.reason },
        full,
        functions: [],
        validation: [],
      };
}

function describeStrippedEngine(
  engine: StrippedEngine,
  fullEngineSha256: string,
): EngineReport["engine"] {
  return {
    kind: "cut",
    source: fullEngineSha256,
    sha256: sha256HexSync(engine.wasm),
    bytes: engine.wasm.byteLength,
    gzipBytes: engine.gzipBytes,
    functions: encodeFunctionSet(engine.keepFunctions),
    functionCount: engine.keepFunctions.size,
  };
}

/** Selects first tiers in order, as long as their memory fits the budget. */
function selectBundledGraphs(
  snapshotted: readonly SnapshottedGraph<DeployedGraph>[],
  { bundledMemoryBytes }: DeploymentConfig,
): SnapshottedGraph<DeployedGraph>[] {
  let remainingBytes = bundledMemoryBytes;
  const seen = new Set<string>();
  return snapshotted.filter(({ graph, snapshot }) => {
    const memoryBytes = snapshot.pageCount * PAGE_BYTES;
    if (!graph.isFirstTier || seen.has(graph.sha256) || memoryBytes > remainingBytes) return false;
    seen.add(graph.sha256);
    remainingBytes -= memoryBytes;
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
    return { ...base, snapshot: null, reason: snapshot?.reason ?? "no snapshot was taken" };
  const { uncompressed, pageCount, profile } = snapshot;
  return {
    ...base,
    snapshot: {
      bytes: uncompressed.bytes.byteLength,
      gzipBytes: gzipSync(uncompressed.bytes).byteLength,
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
    hasImageTier = false,
    trappedFunctions = [],
  }: BuildDeploymentOptions,
  fullEngineSha256: string,
): string {
  const { limits: _limits, ...choices } = config;
  const inputs = [
    RECIPE_VERSION,
    SNAPSHOT_FORMAT,
    fullEngineSha256,
    choices,
    trappedFunctions,
    [...artifacts.keys()],
    hasImageTier,
    graphs.map(({ bytes: _bytes, ...graph }) => graph),
  ];
  return sha256HexSync(JSON.stringify(inputs));
}
