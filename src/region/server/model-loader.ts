// Loads versions and reports the outcome. Each failure is reported once; requests shortly afterwards receive the same failure.

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import {
  type LoadedRegionModel,
  loadRegionModel,
  type LoadModelOptions,
} from "./load-region-model.ts";
import type { LoadedItem } from "./model-cache.ts";
import type { OperatorConfig } from "./operator-config.ts";
import { parseVersionKey, type RepositoryEvent } from "./repository-events.ts";
import { createFailureCache } from "./single-flight.ts";

export interface ModelLoader {
  /** @param key of a version, as repositoryKey makes it @throws as loadRegionModel */
  load(
    key: string,
    reserveMemory: (bytes: number) => Promise<void>,
  ): Promise<LoadedItem<LoadedRegionModel>>;
  /** Lets the next load run immediately, even after recent failures. */
  clearFailure(key: string): void;
  /** Returns why the last load of this version failed. */
  lastFailureReason(key: string): string | undefined;
  /** Reports a failure that occurred before the version could be loaded. */
  reportFailure(model: string, version: number | undefined, error: unknown): void;
}

export interface ModelLoaderOptions extends Omit<
  LoadModelOptions,
  "reserveMemory" | "onProviderEvent"
> {
  readonly clock: Clock;
  /** Time during which a failure is repeated without a new attempt; it grows with consecutive failures. */
  readonly retryAfterMs: number;
  readonly onEvent: (event: RepositoryEvent) => void;
}

/** Failures caused by a request for an unknown model or version. They are neither reported nor remembered. */
const NOT_FOUND_CODES = ["model_not_found", "version_not_found", "no_region_tier"];
const MAX_CACHED_FAILURES = 1_000;
/** Each attempt to load a broken version reads it from the store again. */
const MAX_BACKOFF_FACTOR = 32;

export function createModelLoader({
  clock,
  retryAfterMs,
  onEvent,
  ...options
}: ModelLoaderOptions): ModelLoader {
  const failures = new LRUCache<string, string>({ max: MAX_CACHED_FAILURES });
  const report = createFailureReporter(onEvent);
  const isTransient = (error: unknown) => hasErrorCode(error, "model_store_unavailable", "no_room");
  const failureCache = createFailureCache<LoadedItem<LoadedRegionModel>>({
    clock,
    retryAfterMs,
    maxRetryAfterMs: MAX_BACKOFF_FACTOR * retryAfterMs,
    isTransient,
  });

  async function load(
    key: string,
    reserveMemory: (bytes: number) => Promise<void>,
  ): Promise<LoadedItem<LoadedRegionModel>> {
    const { model, version } = parseVersionKey(key);
    const startedAtMs = clock.now();
    try {
      const item = await loadRegionModel(
        {
          ...options,
          reserveMemory,
          onProviderEvent: (event, tier) => onEvent({ ...event, model, version, tier }),
        },
        model,
        version,
      );
      failures.delete(key);
      const { memoryBytes } = item;
      const durationMs = clock.now() - startedAtMs;
      onEvent({ event: "model_loaded", model, version, durationMs, bytes: memoryBytes });
      for (const tier of listUnknownTiers(options.operatorConfig, item))
        onEvent({ event: "tier_unknown", model, version, tier });
      return { item, memoryBytes };
    } catch (error) {
      if (!hasErrorCode(error, ...NOT_FOUND_CODES)) {
        failures.set(key, reasonOf(error));
        report(model, version, error);
      }
      throw error;
    }
  }

  return {
    load: (key, reserveMemory) => failureCache.run(key, () => load(key, reserveMemory)),
    clearFailure: failureCache.clear,
    lastFailureReason: (key) => failures.get(key),
    reportFailure: report,
  };
}

/** Reports each failure once, even if several callers receive it. */
function createFailureReporter(onEvent: ModelLoaderOptions["onEvent"]) {
  const reported = new WeakSet<Error>();
  return (model: string, version: number | undefined, error: unknown): void => {
    if (!(error instanceof Error) || reported.has(error)) return;
    reported.add(error);
    onEvent({
      event: hasErrorCode(error, "model_store_unavailable") ? "store_unavailable" : "model_failed",
      model,
      version,
      error,
    });
  };
}

/** Lists the tiers that the operator configured and this version does not have. */
function listUnknownTiers(
  { models }: OperatorConfig,
  { manifest, tiers }: LoadedRegionModel,
): readonly string[] {
  const configured = models.get(manifest.model)?.tiers?.keys() ?? [];
  return [...configured].filter((id) => !tiers.some((tier) => tier.manifest.id === id));
}

export const hasErrorCode = (error: unknown, ...codes: readonly string[]) =>
  error instanceof EdgeTierError && codes.includes(error.code);
