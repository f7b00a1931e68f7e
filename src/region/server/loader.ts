// Loads versions and tells how it went: each failure once, and again to those who ask within a moment.

import { LRUCache } from "lru-cache";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import type { Clock } from "../../core/clock.ts";
import { type LoadedModel, loadModel, type LoadOptions } from "./load-model.ts";
import { createFailureMemory } from "./once.ts";
import { partsOf, type RepositoryEvent } from "./repository-events.ts";
import type { Loading } from "./residents.ts";

export interface Loader {
  /** @param key of a version @throws as loadModel */
  load(key: string, makeRoom: (bytes: number) => Promise<void>): Promise<Loading<LoadedModel>>;
  /** The next load of it is tried, however often it has failed. */
  retry(key: string): void;
  /** Why it could not be loaded last. */
  failureOf(key: string): string | undefined;
  /** Of something else that had to be done before it could be loaded. */
  report(model: string, version: number | undefined, error: unknown): void;
}

export interface LoaderOptions extends Omit<LoadOptions, "makeRoom" | "onProviderEvent"> {
  readonly clock: Clock;
  /** How long a failure is given again; longer where it comes again. */
  readonly retryAfterMs: number;
  readonly onEvent: (event: RepositoryEvent) => void;
}

/** Failures that are the asker's, who may be anyone: neither events nor kept. */
const ABSENT = ["model_not_found", "version_not_found", "no_region_tier"];
const MAX_KEPT_FAILURES = 1_000;
/** A version that stays broken is read from the store again for each try. */
const MAX_RETRIES_APART = 32;

export function createLoader({ clock, retryAfterMs, onEvent, ...options }: LoaderOptions): Loader {
  const failures = new LRUCache<string, string>({ max: MAX_KEPT_FAILURES });
  const reported = new WeakSet<Error>();
  const isPassing = (error: unknown) => hasCode(error, "model_store_unavailable", "no_room");
  const memory = createFailureMemory<Loading<LoadedModel>>({
    clock,
    retryAfterMs,
    maxRetryAfterMs: MAX_RETRIES_APART * retryAfterMs,
    isPassing,
  });

  async function load(
    key: string,
    makeRoom: (bytes: number) => Promise<void>,
  ): Promise<Loading<LoadedModel>> {
    const { model, version } = partsOf(key);
    const startedMs = clock.now();
    try {
      const item = await loadModel(
        {
          ...options,
          makeRoom,
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
        bytes: item.bytes,
      });
      const configured = options.config.models.get(model)?.tiers?.keys() ?? [];
      for (const tier of configured)
        if (!item.tiers.some(({ manifest }) => manifest.id === tier))
          onEvent({ event: "tier_unknown", model, version, tier });
      return { item, bytes: item.bytes };
    } catch (error) {
      if (!hasCode(error, ...ABSENT)) {
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
      event: hasCode(error, "model_store_unavailable") ? "store_unavailable" : "model_failed",
      model,
      version,
      error,
    });
  }

  return {
    load: (key, makeRoom) => memory.run(key, () => load(key, makeRoom)),
    retry: memory.forget,
    failureOf: (key) => failures.get(key),
    report,
  };
}

export const hasCode = (error: unknown, ...codes: readonly string[]) =>
  error instanceof EdgeTierError && codes.includes(error.code);
