// Edge sessions: runs edge tiers in the isolate's sessions, and replaces sessions that break.

import type { Deadline } from "../cascade/deadline.ts";
import { asEdgeTierError, EdgeTierError } from "../core/errors.ts";
import type { NamedTensors } from "../core/tensor.ts";
import type { TierManifest } from "../registry/manifest.ts";
import type { Session } from "../runtime/runtime.ts";
import { createSessionCache } from "../runtime/wasm/session-cache.ts";
import { isEngineTrap } from "../runtime/wasm/traps.ts";
import {
  createEdgeSessionLoader,
  type EdgeSessionLoader,
  type EdgeSessionLoaderOptions,
  type EdgeTierStatus,
  findUnsupportedTensor,
} from "./edge-session-loader.ts";
import { servingErrors } from "./errors.ts";
import { createLazy, type Lazy } from "./lazy-value.ts";
import type { RequestContext } from "./request-context.ts";

export type EdgeSessionsOptions = EdgeSessionLoaderOptions;
export type { EdgeTierStatus };

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

export function createEdgeSessions(options: EdgeSessionsOptions): EdgeSessions {
  const loader = createEdgeSessionLoader(options);
  const { loadFallback } = loader;
  const run = createSessionRunner(options, loader);

  return {
    async infer(tier, inputs, context, deadline) {
      const graph = tier.graph.sha256;
      const reason = findUnsupportedTensor(tier);
      if (reason !== undefined) throw servingErrors.tierNotServable(tier.id, reason);
      const call = { tier, inputs, context, deadline };
      try {
        return await run(graph, loader.load, call);
      } catch (error) {
        const isStripped = error instanceof EdgeTierError && error.code === "function_cut";
        if (!isStripped || loadFallback === undefined) throw error;
        return await run(`${graph} full`, loadFallback, call);
      }
    },
    tierStatusOf: loader.tierStatusOf,
  };
}

interface TierCall {
  readonly tier: TierManifest;
  readonly inputs: NamedTensors;
  readonly context: RequestContext;
  readonly deadline: Deadline;
}

/** Runs a call in the session with this key, which `open` creates on first use. */
type SessionRunner = (
  key: string,
  open: (tier: TierManifest) => Promise<Session>,
  call: TierCall,
) => Promise<NamedTensors>;

function createSessionRunner(
  options: EdgeSessionsOptions,
  loader: EdgeSessionLoader,
): SessionRunner {
  const { deployment, metrics } = options;
  const sessions = new Map<string, Lazy<Session>>();
  /** Consecutive failed runs, by session. */
  const failureCounts = new Map<string, number>();
  const cache = createSessionCache({
    budgetBytes: deployment.sessionBudgetBytes,
    onEvict(key, session) {
      metrics.count("edgetier_sessions_evicted_total", {});
      loader.discardRestored(key);
      sessions.get(key)?.evict(session);
    },
  });
  for (const [graph, session] of loader.restored) cache.add(graph, session);

  function getLazySession(key: string, open: () => Promise<Session>): Lazy<Session> {
    const known = sessions.get(key);
    if (known !== undefined) return known;
    const lazy = createLazy(async () => {
      const session = await open();
      cache.add(key, session);
      return session;
    });
    sessions.set(key, lazy);
    return lazy;
  }

  /** Evicts a session after a trap, which may corrupt its memory, or after repeated failures. A single failure may be due to its input. */
  function handleFailure(key: string, session: Session, error: unknown): void {
    const isFailure = asEdgeTierError(error).code === "session_failed";
    const failureCount = isFailure ? (failureCounts.get(key) ?? 0) + 1 : 0;
    failureCounts.set(key, failureCount);
    if (!isEngineTrap(error) && failureCount < MAX_CONSECUTIVE_FAILURES) return;
    failureCounts.delete(key);
    sessions.get(key)?.evict(session);
    cache.remove(key);
  }

  return async (key, open, call) => {
    const { tier, inputs, context, deadline } = call;
    const session = await getLazySession(key, () => open(tier)).get(context, deadline);
    try {
      const outputs = await context.phases.measure("edge", () => session.run(inputs));
      cache.touch(key); // its memory may have grown
      failureCounts.delete(key);
      return outputs;
    } catch (error) {
      handleFailure(key, session, error);
      if (isEngineTrap(error)) reportTrap(options, call, error);
      throw error;
    }
  };
}

function reportTrap(
  { deployment, metrics, log }: EdgeSessionsOptions,
  { tier, context }: TierCall,
  error: unknown,
): void {
  const { code, detail, facts } = asEdgeTierError(error);
  metrics.count("edgetier_engine_traps_total", { kind: code });
  log({
    level: "error",
    event: "engine_trap",
    requestId: context.requestId,
    engine: deployment.engine.source,
    graph: tier.graph.sha256,
    tier: tier.id,
    ...facts,
    detail,
  });
}
