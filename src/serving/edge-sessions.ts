// The sessions of this isolate: where each comes from, what it costs, and what happens when one breaks.
//
// A tier's session comes from the first of these that there is: restored at module scope; the snapshot that came with the
// Worker; the version's snapshot in the store; the model itself, where there is a full engine to open it.

import { servingErrors } from "./errors.ts";
import type { Deadline } from "../cascade/deadline.ts";
import { asEdgeTierError, EdgeTierError } from "../core/errors.ts";
import type { NamedTensors } from "../core/tensor.ts";
import type { TierManifest } from "../registry/manifest.ts";
import type { ModelStore } from "../registry/model-store.ts";
import type { Session } from "../runtime/runtime.ts";
import { createBytesSource, createStreamSource } from "../runtime/wasm/byte-source.ts";
import type { Deployment } from "../runtime/wasm/deployment.ts";
import { type EngineModule, PAGE_BYTES } from "../runtime/wasm/engine.ts";
import type { BundledSessions } from "../runtime/wasm/restore-bundled-snapshots.ts";
import { restoreSnapshot } from "../runtime/wasm/restore-snapshot.ts";
import { createSessionCache } from "../runtime/wasm/session-cache.ts";
import { findIncompatibility } from "../runtime/wasm/snapshot-compatibility.ts";
import { isEngineTrap } from "../runtime/wasm/traps.ts";
import { createWasmRuntime } from "../runtime/wasm/wasm-runtime.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import { createLazy, type Lazy } from "./lazy-value.ts";
import type { RequestContext } from "./request-context.ts";

export interface EdgeSessionsOptions {
  readonly deployment: Deployment;
  readonly restored: BundledSessions;
  readonly store: ModelStore;
  /** For loading one artifact. */
  readonly storeTimeoutMs: number;
  readonly metrics: EdgeMetrics;
  readonly log: (record: Readonly<Record<string, unknown>>) => void;
}

/** How this isolate serves an edge tier, or why it does not. */
export type EdgeTierStatus =
  | { readonly how: "bundled" | "snapshot" | "plain" }
  | { readonly how: "not"; readonly reason: string };

export interface EdgeSessions {
  /**
   * Runs the tier's graph.
   * @throws tier_not_servable, session_too_large, model_store_unavailable, artifact_corrupt, invalid_tensor;
   * session_failed, engine_trap, function_cut
   */
  infer(
    tier: TierManifest,
    inputs: NamedTensors,
    context: RequestContext,
    deadline: Deadline,
  ): Promise<NamedTensors>;
  tierStatusOf(tier: TierManifest): EdgeTierStatus;
}

const MAX_CONSECUTIVE_FAILURES = 3;
/** Of a snapshot that is not what it should be, or does not arrive whole. */
const SNAPSHOT_REJECTION_CODES = new Set([
  "snapshot_refused",
  "artifact_corrupt",
  "model_store_unavailable",
]);

export function createEdgeSessions(options: EdgeSessionsOptions): EdgeSessions {
  const { deployment, store, storeTimeoutMs, metrics, log } = options;
  const { engine, fallback, sessionBudgetBytes: budgetBytes } = deployment;
  // What an instance asks for beyond its budget is refused to it, instead of ending the isolate.
  const limits = { maximumPages: Math.floor(budgetBytes / PAGE_BYTES) };
  const restored = new Map(options.restored.sessions);
  const loads = new Map<string, Lazy<Session>>();
  /** Runs that failed since the last that did not, by session. */
  const failures = new Map<string, number>();
  const pool = createSessionCache({
    budgetBytes,
    onEvict(key, session) {
      metrics.count("edgetier_sessions_evicted_total", {});
      restored.delete(key);
      loads.get(key)?.evict(session);
    },
  });
  for (const error of options.restored.failures) refused(error, "module scope");
  for (const [graph, session] of restored) pool.add(graph, session);

  function refused(error: EdgeTierError, where: string): void {
    metrics.count("edgetier_snapshots_refused_total", {
      reason: String(error.facts["reason"] ?? error.code),
    });
    log({ level: "warn", event: "snapshot_refused", where, detail: error.detail });
  }

  /** What the engine cannot run, however its session would be opened. */
  function cannotRun({ inputs, outputs }: TierManifest): string | undefined {
    const text = [...inputs, ...outputs].find(({ datatype }) => datatype === "BYTES");
    return text && `${text.name} holds strings, which the engine does not take`;
  }

  function cannotRestore({ snapshot }: TierManifest): string | undefined {
    const tooLarge = snapshot !== undefined && snapshot.memoryBytes > budgetBytes;
    return tooLarge
      ? `it takes ${snapshot.memoryBytes} bytes of memory, the budget is ${budgetBytes}`
      : findIncompatibility(snapshot, engine);
  }

  const artifactTimeout = () => AbortSignal.timeout(storeTimeoutMs);

  /** @returns why not, where it cannot be restored: the tier is then served some other way */
  async function restore(tier: TierManifest): Promise<Session | EdgeTierError> {
    const graph = tier.graph.sha256;
    const ready = restored.get(graph);
    if (ready !== undefined) {
      restored.delete(graph); // it is in `loads` from now on, or broken and never comes back
      metrics.count("edgetier_sessions_opened_total", { how: "module_scope" });
      return ready;
    }
    const bundle = deployment.bundled.find((one) => one.graph === graph);
    if (bundle !== undefined) {
      const session = await orRefused("bundled", () =>
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
    const reason = cannotRestore(tier);
    if (snapshot === undefined || reason !== undefined)
      return servingErrors.tierNotServable(tier.id, reason ?? "the version has no snapshot");
    return await orRefused("store", async () => {
      const stream = await store.streamArtifact(snapshot.artifact, artifactTimeout());
      return await restoreSnapshot(
        engine,
        createStreamSource(stream),
        snapshot.head,
        graph,
        limits,
      );
    });
  }

  async function orRefused(
    how: "bundled" | "store",
    restoring: () => Promise<Session>,
  ): Promise<Session | EdgeTierError> {
    try {
      const session = await restoring();
      metrics.count("edgetier_sessions_opened_total", { how });
      return session;
    } catch (error) {
      if (!(error instanceof EdgeTierError) || !SNAPSHOT_REJECTION_CODES.has(error.code))
        throw error;
      refused(error, how);
      return error;
    }
  }

  async function openModel(
    tier: TierManifest,
    full: EngineModule,
    how: "plain" | "fallback",
  ): Promise<Session> {
    const model = await store.readArtifact(tier.graph, artifactTimeout());
    const session = await createWasmRuntime(full, limits).createSession(model);
    metrics.count("edgetier_sessions_opened_total", { how });
    return session;
  }

  async function load(tier: TierManifest): Promise<Session> {
    const session = await restore(tier);
    if (!(session instanceof EdgeTierError)) return session;
    if (engine.kind === "full") return await openModel(tier, engine, "plain");
    if (fallback !== undefined) return await openModel(tier, fallback, "fallback");
    throw session;
  }

  async function session(
    key: string,
    open: () => Promise<Session>,
    context: RequestContext,
    deadline: Deadline,
  ): Promise<Session> {
    let lazy = loads.get(key);
    if (lazy === undefined) {
      lazy = createLazy(async () => {
        const opened = await open();
        pool.add(key, opened);
        return opened;
      });
      loads.set(key, lazy);
    }
    return await lazy.get(context, deadline);
  }

  async function runIn(
    key: string,
    open: () => Promise<Session>,
    tier: TierManifest,
    inputs: NamedTensors,
    context: RequestContext,
    deadline: Deadline,
  ): Promise<NamedTensors> {
    const opened = await session(key, open, context, deadline);
    try {
      const outputs = await context.phases.measure("edge", () => opened.run(inputs));
      pool.touch(key); // it may have grown
      failures.delete(key);
      return outputs;
    } catch (error) {
      const { code, detail, facts } = asEdgeTierError(error);
      const failed = code === "session_failed" ? (failures.get(key) ?? 0) + 1 : 0;
      failures.set(key, failed);
      // After a trap the instance's memory may be in any state: another one takes its place. An input that ONNX Runtime
      // refuses does not cost one, but an instance that refuses everything does not stay.
      if (isEngineTrap(error) || failed >= MAX_CONSECUTIVE_FAILURES) {
        failures.delete(key);
        loads.get(key)?.evict(opened);
        pool.remove(key);
      }
      if (isEngineTrap(error)) {
        metrics.count("edgetier_engine_traps_total", { kind: code });
        log({
          level: "error",
          event: "engine_trap",
          requestId: context.requestId,
          engine: engine.source,
          graph: tier.graph.sha256,
          tier: tier.id,
          ...facts,
          detail,
        });
      }
      throw error;
    }
  }

  return {
    async infer(tier, inputs, context, deadline) {
      const graph = tier.graph.sha256;
      const reason = cannotRun(tier);
      if (reason !== undefined) throw servingErrors.tierNotServable(tier.id, reason);
      try {
        return await runIn(graph, () => load(tier), tier, inputs, context, deadline);
      } catch (error) {
        const cut = error instanceof EdgeTierError && error.code === "function_cut";
        if (!cut || fallback === undefined) throw error;
        return await runIn(
          `${graph} full`,
          () => openModel(tier, fallback, "fallback"),
          tier,
          inputs,
          context,
          deadline,
        );
      }
    },
    tierStatusOf(tier) {
      const never = cannotRun(tier);
      if (never !== undefined) return { how: "not", reason: never };
      if (deployment.bundled.some(({ graph }) => graph === tier.graph.sha256))
        return { how: "bundled" };
      const reason = cannotRestore(tier);
      if (reason === undefined) return { how: "snapshot" };
      return engine.kind === "full" || fallback !== undefined
        ? { how: "plain" }
        : { how: "not", reason };
    },
  };
}
