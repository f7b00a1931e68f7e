// Alias cache: keeps each model's aliases for a while, refreshes them in the background, and serves old ones while the store is
// unavailable.

import type { Clock } from "../core/clock.ts";
import { EdgeTierError } from "../core/errors.ts";
import { registryErrors } from "../registry/errors.ts";
import type { Aliases } from "../registry/manifest.ts";
import type { ModelStore } from "../registry/model-store.ts";
import type { RequestContext } from "./request-context.ts";

export interface AliasCacheOptions {
  readonly store: Pick<ModelStore, "readAliases">;
  readonly clock: Clock;
  /** Age from which aliases are refreshed in the background; from twice this age, requests wait for the read. */
  readonly aliasTtlMs: number;
  /** Timeout of one read of the store. */
  readonly storeTimeoutMs: number;
}

/** Reads a model's aliases. @throws model_not_found, model_store_unavailable */
export type ReadAliases = (model: string, context: RequestContext) => Promise<Aliases>;

interface CachedAliases {
  readonly aliases: Aliases;
  readonly readAtMs: number;
}

export function createAliasCache({
  store,
  clock,
  aliasTtlMs,
  storeTimeoutMs,
}: AliasCacheOptions): ReadAliases {
  const entries = new Map<string, CachedAliases>();

  async function refresh(model: string): Promise<Aliases> {
    const stored = await store.readAliases(model, AbortSignal.timeout(storeTimeoutMs));
    if (stored === undefined) {
      entries.delete(model);
      throw registryErrors.modelNotFound(model);
    }
    entries.set(model, { aliases: stored.aliases, readAtMs: clock.now() });
    return stored.aliases;
  }

  /** Defers the next read by half a lifetime, while a refresh is in flight or the store is unavailable. */
  function deferRefresh(model: string, entry: CachedAliases): void {
    entries.set(model, { ...entry, readAtMs: clock.now() - aliasTtlMs / 2 });
  }

  return async (model, context) => {
    const entry = entries.get(model);
    const ageMs = entry === undefined ? Number.POSITIVE_INFINITY : clock.now() - entry.readAtMs;
    if (entry !== undefined && ageMs < 2 * aliasTtlMs) {
      if (ageMs >= aliasTtlMs) {
        deferRefresh(model, entry);
        context.waitUntil(refresh(model).catch(() => {}));
      }
      return entry.aliases;
    }
    try {
      return await refresh(model);
    } catch (error) {
      if (entry === undefined || !(error instanceof EdgeTierError) || !error.retryable) throw error;
      // Old aliases stay in use while the store is unavailable, and not every request waits for its timeout.
      deferRefresh(model, entry);
      return entry.aliases;
    }
  };
}
