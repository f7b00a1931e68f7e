// Loads versions and tells how it went: each failure once, and again to those who ask within a moment.

import { LRUCache } from "lru-cache";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import type { Clock } from "../../core/clock.ts";
import {
  type LoadedRegionModel,
  loadRegionModel,
  type LoadModelOptions,
} from "./load-region-model.ts";
import { createFailureCache } from "./single-flight.ts";
import { parseVersionKey, type RepositoryEvent } from "./repository-events.ts";
import type { LoadedItem } from "./model-cache.ts";

export interface ModelLoader {
  /** @param key of a version @throws as loadRegionModel */
  load(
    key: string,
    makeRoom: (bytes: number) => Promise<void>,
  ): Promise<LoadedItem<LoadedRegionModel>>;
  /** The next load of it is tried, however often it has failed. */
  clearFailure(key: string): void;
  /** Why it could not be loaded last. */
  lastFailureReason(key: string): string | undefined;
  /** Of something else that had to be done before it could be loaded. */
  reportFailure(model: string, version: number | undefined, error: unknown): void;
}

export interface ModelLoaderOptions extends Omit<
  LoadModelOptions,
  "reserveMemory" | "onProviderEvent"
> {
  readonly clock: Clock;
  /** How long a failure is given again; longer where it comes again. */
  readonly retryAfterMs: number;
  readonly onEvent: (event: RepositoryEvent) => void;
}

/** Failures that are the asker's, who may be anyone: neither events nor kept. */
const NOT_FOUND_CODES = ["model_not_found", "version_not_found", "no_region_tier"];
const MAX_CACHED_FAILURES = 1_000;
/** A version that stays broken is read from the store again for each try. */
const MAX_BACKOFF_FACTOR = 32;

export function createModelLoader({
  clock,
  retryAfterMs,
  onEvent,
  ...options
}: ModelLoaderOptions): ModelLoader {
  const failures = new LRUCache<string, string>({ max: MAX_CACHED_FAILURES });
  const reported = new WeakSet<Error>();
  const isPassing = (error: unknown) => hasErrorCode(error, "model_store_unavailable", "no_room");
  const memory = createFailureCache<LoadedItem<LoadedRegionModel>>({
    clock,
    retryAfterMs,
    maxRetryAfterMs: MAX_BACKOFF_FACTOR * retryAfterMs,
    isTransient: isPassing,
  });

  async function load(
    key: string,
    makeRoom: (bytes: number) => Promise<void>,
  ): Promise<LoadedItem<LoadedRegionModel>> {
    const { model, version } = parseVersionKey(key);
    const startedMs = clock.now();
    try {
      const item = await loadRegionModel(
        {
          ...options,
          reserveMemory: makeRoom,
          onProviderEvent: (event, tier) => onEvent({ ...event, model, version, tier }),
        },
        model,
        version,
      );
      failures.delete(key);
      onEvent({
        event: "model_loaded",
        model,
        version,
        durationMs: clock.now() - startedMs,
        bytes: item.memoryBytes,
      });
      const configured = options.operatorConfig.models.get(model)?.tiers?.keys() ?? [];
      for (const tier of configured)
        if (!item.tiers.some(({ manifest }) => manifest.id === tier))
          onEvent({ event: "tier_unknown", model, version, tier });
      return { item, memoryBytes: item.memoryBytes };
    } catch (error) {
      if (!hasErrorCode(error, ...NOT_FOUND_CODES)) {
        failures.set(key, reasonOf(error));
        report(model, version, error);
      }
      throw error;
    }
  }

  function report(model: string, version: number | undefined, error: unknown): void {
    if (!(error instanceof Error) || reported.has(error)) return;
    reported.add(error);
    onEvent({
      event: hasErrorCode(error, "model_store_unavailable") ? "store_unavailable" : "model_failed",
      model,
      version,
      error,
    });
  }

  return {
    load: (key, makeRoom) => memory.run(key, () => load(key, makeRoom)),
    clearFailure: memory.clear,
    lastFailureReason: (key) => failures.get(key),
    reportFailure: report,
  };
}

export const hasErrorCode = (error: unknown, ...codes: readonly string[]) =>
  error instanceof EdgeTierError && codes.includes(error.code);
