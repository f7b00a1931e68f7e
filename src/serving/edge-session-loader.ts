// Edge session loader: opens the session of an edge tier.
//
// The loader prefers a session restored at module scope, then the snapshot bundled with the Worker, then the version's snapshot
// in the model store. If none works and the deployment has a full engine, it opens the model itself.

import { EdgeTierError } from "../core/errors.ts";
import type { TierManifest } from "../registry/manifest.ts";
import type { ModelStore } from "../registry/model-store.ts";
import type { Session } from "../runtime/runtime.ts";
import { createBytesSource, createStreamSource } from "../runtime/wasm/byte-source.ts";
import type { Deployment } from "../runtime/wasm/deployment.ts";
import { type EngineModule, PAGE_BYTES } from "../runtime/wasm/engine.ts";
import type { BundledSessions } from "../runtime/wasm/restore-bundled-snapshots.ts";
import { restoreSnapshot } from "../runtime/wasm/restore-snapshot.ts";
import { findIncompatibility } from "../runtime/wasm/snapshot-compatibility.ts";
import { createWasmRuntime } from "../runtime/wasm/wasm-runtime.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import { servingErrors } from "./errors.ts";

export interface EdgeSessionLoaderOptions {
  readonly deployment: Deployment;
  readonly restored: BundledSessions;
  readonly store: ModelStore;
  /** Timeout of loading one artifact. */
  readonly storeTimeoutMs: number;
  readonly metrics: EdgeMetrics;
  readonly log: (record: Readonly<Record<string, unknown>>) => void;
}

/** Whether and how this isolate serves an edge tier. */
export type EdgeTierStatus =
  | { readonly status: "bundled" | "snapshot" | "plain" }
  | { readonly status: "unsupported"; readonly reason: string };

export interface EdgeSessionLoader {
  /** Sessions restored at module scope that no request has used yet, by graph. */
  readonly restored: ReadonlyMap<string, Session>;
  /** Discards a session restored at module scope. */
  discardRestored(graph: string): void;
  /** @throws tier_not_servable, session_too_large, model_store_unavailable, artifact_corrupt */
  load(tier: TierManifest): Promise<Session>;
  /** Opens the model in the fallback engine, which has all functions. */
  readonly loadFallback: ((tier: TierManifest) => Promise<Session>) | undefined;
  tierStatusOf(tier: TierManifest): EdgeTierStatus;
}

/** Errors after which a tier is loaded from its next source. */
const SNAPSHOT_REJECTION_CODES = new Set([
  "snapshot_refused",
  "artifact_corrupt",
  "model_store_unavailable",
]);

export function createEdgeSessionLoader(options: EdgeSessionLoaderOptions): EdgeSessionLoader {
  const { engine, fallback } = options.deployment;
  const restored = new Map(options.restored.sessions);
  for (const error of options.restored.failures) reportRejection(options, error, "module scope");

  function takeRestored(graph: string): Session | undefined {
    const session = restored.get(graph);
    restored.delete(graph); // the caller owns it from here, and a broken one must not come back
    return session;
  }

  return {
    restored,
    discardRestored: (graph) => void restored.delete(graph),
    async load(tier) {
      const session = takeRestored(tier.graph.sha256);
      if (session !== undefined) {
        options.metrics.count("edgetier_sessions_opened_total", { how: "module_scope" });
        return session;
      }
      const restoredNow = await restoreTier(options, tier);
      if (!(restoredNow instanceof EdgeTierError)) return restoredNow;
      if (engine.kind === "full") return await openModel(options, tier, engine, "plain");
      if (fallback !== undefined) return await openModel(options, tier, fallback, "fallback");
      throw restoredNow;
    },
    loadFallback: fallback && ((tier) => openModel(options, tier, fallback, "fallback")),
    tierStatusOf: (tier) => findTierStatus(options.deployment, tier),
  };
}

/** @returns why the engine cannot run the tier, regardless of the session's source */
export function findUnsupportedTensor({ inputs, outputs }: TierManifest): string | undefined {
  const text = [...inputs, ...outputs].find(({ datatype }) => datatype === "BYTES");
  return text && `${text.name} has the datatype BYTES, which the engine does not support`;
}

function findTierStatus(deployment: Deployment, tier: TierManifest): EdgeTierStatus {
  const unsupported = findUnsupportedTensor(tier);
  if (unsupported !== undefined) return { status: "unsupported", reason: unsupported };
  if (deployment.bundled.some(({ graph }) => graph === tier.graph.sha256))
    return { status: "bundled" };
  const reason = findSnapshotProblem(deployment, tier);
  if (reason === undefined) return { status: "snapshot" };
  return deployment.engine.kind === "full" || deployment.fallback !== undefined
    ? { status: "plain" }
    : { status: "unsupported", reason };
}

/** @returns why the tier's snapshot in the store cannot be restored */
function findSnapshotProblem(
  { engine, sessionBudgetBytes }: Deployment,
  { snapshot }: TierManifest,
): string | undefined {
  const isTooLarge = snapshot !== undefined && snapshot.memoryBytes > sessionBudgetBytes;
  return isTooLarge
    ? `it takes ${snapshot.memoryBytes} bytes of memory, the budget is ${sessionBudgetBytes}`
    : findIncompatibility(snapshot, engine);
}

/** The engine enforces the budget inside an instance, so that the platform does not end the isolate. */
const memoryLimitsOf = ({ sessionBudgetBytes }: Deployment) => ({
  maximumPages: Math.floor(sessionBudgetBytes / PAGE_BYTES),
});

/** @returns the session, or the reason why no snapshot can be restored */
async function restoreTier(
  options: EdgeSessionLoaderOptions,
  tier: TierManifest,
): Promise<Session | EdgeTierError> {
  const { deployment, store, storeTimeoutMs } = options;
  const { engine } = deployment;
  const graph = tier.graph.sha256;
  const limits = memoryLimitsOf(deployment);
  const bundle = deployment.bundled.find((snapshot) => snapshot.graph === graph);
  if (bundle !== undefined) {
    const session = await restoreOrReport(options, "bundled", () =>
      restoreSnapshot(
        engine,
        createBytesSource(new Uint8Array(bundle.bytes)),
        bundle.head,
        graph,
        limits,
      ),
    );
    if (!(session instanceof EdgeTierError)) return session;
  }
  const { snapshot } = tier;
  const reason = findSnapshotProblem(deployment, tier);
  if (snapshot === undefined || reason !== undefined)
    return servingErrors.tierNotServable(tier.id, reason ?? "the version has no snapshot");
  return await restoreOrReport(options, "store", async () => {
    const signal = AbortSignal.timeout(storeTimeoutMs);
    const stream = await store.streamArtifact(snapshot.artifact, signal);
    return await restoreSnapshot(engine, createStreamSource(stream), snapshot.head, graph, limits);
  });
}

async function restoreOrReport(
  options: EdgeSessionLoaderOptions,
  source: "bundled" | "store",
  restore: () => Promise<Session>,
): Promise<Session | EdgeTierError> {
  try {
    const session = await restore();
    options.metrics.count("edgetier_sessions_opened_total", { how: source });
    return session;
  } catch (error) {
    if (!(error instanceof EdgeTierError) || !SNAPSHOT_REJECTION_CODES.has(error.code)) throw error;
    reportRejection(options, error, source);
    return error;
  }
}

function reportRejection(
  { metrics, log }: EdgeSessionLoaderOptions,
  error: EdgeTierError,
  where: string,
): void {
  metrics.count("edgetier_snapshots_refused_total", {
    reason: String(error.facts["reason"] ?? error.code),
  });
  log({ level: "warn", event: "snapshot_refused", where, detail: error.detail });
}

async function openModel(
  { deployment, store, storeTimeoutMs, metrics }: EdgeSessionLoaderOptions,
  tier: TierManifest,
  engine: EngineModule,
  how: "plain" | "fallback",
): Promise<Session> {
  const model = await store.readArtifact(tier.graph, AbortSignal.timeout(storeTimeoutMs));
  const session = await createWasmRuntime(engine, memoryLimitsOf(deployment)).createSession(model);
  metrics.count("edgetier_sessions_opened_total", { how });
  return session;
}
