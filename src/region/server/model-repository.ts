// Repository of a region's models: loads a version on its first request and keeps it while memory lasts.
//
// Concurrent requests share one load. An alias switches to a new version only after that version was loaded and warmed up.
// The previous version keeps serving until then, and if the load fails. An unloaded model stays unloaded until it is
// loaded by name (Triton's repository extension), whereas an evicted model is loaded again by its next request.

import { regionServerErrors } from "./errors.ts";
import { registryErrors } from "../../registry/errors.ts";
import { systemClock, type Clock } from "../../core/clock.ts";
import type { Manifest } from "../../registry/manifest.ts";
import { DEFAULT_ALIAS, type ModelRef } from "../../registry/model-ref.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import type { NativeRuntime } from "../../runtime/native/native-runtime.ts";
import { createStaleVersionReaper } from "./stale-version-reaper.ts";
import { disposeTiers, type LoadedRegionModel, requireManifest } from "./load-region-model.ts";
import { createModelLoader, hasErrorCode } from "./model-loader.ts";
import { type OperatorConfig, EMPTY_OPERATOR_CONFIG } from "./operator-config.ts";
import { listPreloadRefs, loadConcurrently } from "./preload-models.ts";
import {
  isKeyOfModel,
  repositoryKey,
  parseVersionKey,
  type RepositoryEvent,
} from "./repository-events.ts";
import { createModelCache } from "./model-cache.ts";
import { createVersionResolver } from "./version-resolver.ts";

export interface ModelRepository {
  /**
   * Runs `work` with the model, which is loaded if necessary and stays loaded until `work` ends.
   * @throws model_not_found, version_not_found, version_unavailable, alias_not_found, model_unloaded; model_too_large, no_room;
   * every failure of a load (load-region-model.ts); and what `work` throws
   */
  withModel<Result>(
    ref: ModelRef,
    work: (model: LoadedRegionModel) => Promise<Result> | Result,
  ): Promise<Result>;
  /** Returns the model, loaded if necessary. Only for inspection: it may be unloaded at any time. @throws as withModel */
  getModel(ref: ModelRef): Promise<LoadedRegionModel>;
  /** @returns undefined if the model is not loaded @throws model_not_found, alias_not_found */
  findLoaded(ref: ModelRef): Promise<LoadedRegionModel | undefined>;
  listLoaded(): readonly LoadedRegionModel[];
  /** Returns the manifest and the available versions without loading anything. @throws as withModel */
  describe(
    ref: ModelRef,
  ): Promise<{ readonly manifest: Manifest; readonly versions: readonly number[] }>;
  /**
   * Returns whether the model is loaded. If it is not, this starts a load, unless the model was evicted: a readiness check
   * must not displace a model in use.
   * @throws model_not_found, alias_not_found
   */
  isReady(ref: ModelRef): Promise<boolean>;
  /** Lists every version in the store, with its state here. @throws model_store_unavailable */
  listIndex(): Promise<readonly RepositoryIndexEntry[]>;
  /** Loads the version that `stable` names now. If this fails, a previously loaded version keeps serving. @throws as withModel */
  load(model: string): Promise<void>;
  /** Unloads all versions after their requests in flight; only `load` loads the model again. @throws model_not_found */
  unload(model: string): Promise<void>;
  /**
   * Loads these references, and the aliases and version-policy versions of each model configured for preloading. Failures are
   * reported as events.
   */
  preload(refs: readonly ModelRef[]): Promise<void>;
  dispose(): Promise<void>;
}

/** Entry of Triton's repository index. */
export interface RepositoryIndexEntry {
  readonly name: string;
  readonly version: string;
  readonly state: "READY" | "LOADING" | "UNAVAILABLE";
  /** Why the version is not ready; empty if it simply has not been requested. */
  readonly reason: string;
}

export type { RepositoryEvent };

export interface ModelRepositoryOptions {
  readonly store: ModelStore;
  readonly runtime: NativeRuntime;
  readonly operatorConfig?: OperatorConfig;
  readonly clock?: Clock;
  /** Limit of the memory of all loaded models; 0 disables it. */
  readonly memoryBudgetBytes?: number;
  /** Maximum time that a load waits for memory within the budget. */
  readonly memoryTimeoutMs?: number;
  /** Time without requests after which an unreferenced version is unloaded. */
  readonly staleVersionIdleMs?: number;
  /** How long an alias is cached before the store is read again. */
  readonly aliasTtlMs?: number;
  /** Time during which a failed load is repeated without a new attempt; it grows with consecutive failures. */
  readonly retryAfterMs?: number;
  /** Timeout of the store for one file. */
  readonly storeTimeoutMs?: number;
  readonly onEvent?: (event: RepositoryEvent) => void;
}

export function createModelRepository(options: ModelRepositoryOptions): ModelRepository {
  const {
    store,
    runtime,
    operatorConfig: config = EMPTY_OPERATOR_CONFIG,
    clock = systemClock,
    onEvent = () => {},
  } = options;
  const {
    memoryBudgetBytes: budgetBytes = 0,
    memoryTimeoutMs: roomTimeoutMs = 10_000,
    staleVersionIdleMs: leftoverIdleMs = 300_000,
    aliasTtlMs = 5_000,
    retryAfterMs = 1_000,
    storeTimeoutMs = 120_000,
  } = options;
  /** By "model@alias": the version that it was last answered with. */
  const serving = new Map<string, number>();
  /** "model@version". */
  const evicted = new Set<string>();
  const unloaded = new Set<string>();
  const loader = createModelLoader({
    store,
    runtime,
    operatorConfig: config,
    clock,
    retryAfterMs,
    storeTimeoutMs,
    onEvent,
  });
  const versions = createVersionResolver({
    store,
    operatorConfig: config,
    clock,
    ttlMs: aliasTtlMs,
    retryAfterMs,
    timeoutMs: storeTimeoutMs,
    onAliasOverridden: (alias) => onEvent({ event: "alias_overruled", ...alias }),
  });

  const residents = createModelCache<LoadedRegionModel>({
    clock,
    memoryBudgetBytes: budgetBytes,
    memoryTimeoutMs: roomTimeoutMs,
    async load(key, makeRoom) {
      const loading = await loader.load(key, makeRoom);
      evicted.delete(key);
      leftovers.schedule();
      return loading;
    },
    unload: ({ tiers }) => disposeTiers(tiers),
    onEvict(key, bytes) {
      evicted.add(key);
      onEvent({ event: "model_evicted", ...parseVersionKey(key), bytes });
    },
  });
  const leftovers = createStaleVersionReaper({
    clock,
    idleMs: leftoverIdleMs,
    listLoaded: () =>
      residents.all().map(({ key, useCount: users, lastUsedAtMs }) => ({
        key,
        ...parseVersionKey(key),
        isInUse: users > 0,
        lastUsedAtMs,
      })), // what is being loaded has users
    async listReferenced(model) {
      const named = await versions.listReferenced(model);
      const targets = Object.keys(named.aliases).map((alias) =>
        versions.resolve({ model, target: { kind: "alias", alias } }),
      );
      const current = [...serving]
        .filter(([key]) => isKeyOfModel(model, key))
        .map(([, version]) => version); // until its alias has gone on
      return new Set([...(await Promise.all(targets)), ...named.versions, ...current]);
    },
    unload: remove,
  });

  const isLoaded = (key: string) => residents.get(key)?.item !== undefined;

  /** Starts a load that nobody waits for; `onEvent` reports how it ends. */
  function loadAside(key: string): void {
    residents.use(key, () => {}).catch(() => {});
  }

  async function remove(key: string): Promise<void> {
    onEvent({ event: "model_unloaded", ...parseVersionKey(key) });
    await residents.remove(key);
  }

  /** @throws version_unavailable */
  async function checkOffered(model: string, version: number): Promise<void> {
    if (isLoaded(repositoryKey(model, version))) return; // offered for as long as it is there
    const refusal = await versions.rejectionReason(model, version);
    if (refusal !== undefined) throw regionServerErrors.versionUnavailable(model, version, refusal);
  }

  async function versionOf(ref: ModelRef): Promise<number> {
    const version = await versions.resolve(ref);
    await checkOffered(ref.model, version);
    return version;
  }

  async function use<Result>(
    ref: ModelRef,
    work: (model: LoadedRegionModel) => Promise<Result> | Result,
  ): Promise<Result> {
    checkNotUnloaded(ref.model);
    const version = await versionOf(ref);
    const key = repositoryKey(ref.model, version);
    if (ref.target.kind === "version") return await useKey(key, work);

    const alias = repositoryKey(ref.model, ref.target.alias);
    const before = repositoryKey(ref.model, serving.get(alias) ?? version);
    if (before !== key && !isLoaded(key)) {
      if (isLoaded(before)) {
        loadAside(key);
        return await useKey(before, work);
      }
      // The one before was evicted: it is loaded again only where the new one cannot be.
      if (!(await isFulfilled(useKey(key, () => {})))) return await useKey(before, work);
    }
    return await useKey(key, (model) => {
      serving.set(alias, version);
      return work(model);
    });
  }

  async function useKey<Result>(
    key: string,
    work: (model: LoadedRegionModel) => Promise<Result> | Result,
  ): Promise<Result> {
    checkNotUnloaded(parseVersionKey(key).model); // while the store was asked, perhaps
    return await residents.use(key, work);
  }

  function checkNotUnloaded(model: string): void {
    if (unloaded.has(model)) throw regionServerErrors.modelUnloaded(model);
  }

  async function loaded({ model, target }: ModelRef): Promise<LoadedRegionModel | undefined> {
    const item = (version: number | undefined) =>
      version === undefined ? undefined : residents.get(repositoryKey(model, version))?.item;
    return (
      item(await versions.resolve({ model, target })) ??
      (target.kind === "alias" ? item(serving.get(repositoryKey(model, target.alias))) : undefined)
    );
  }

  /** @param isConfigured by the model's name: one without a region tier is then none of this region's */
  async function preloadOne(ref: ModelRef, isConfigured: boolean): Promise<void> {
    try {
      if (
        unloaded.has(ref.model) ||
        evicted.has(repositoryKey(ref.model, await versions.resolve(ref)))
      )
        return; // or it would push out what took its place
      await use(ref, () => {});
    } catch (error) {
      if (!(isConfigured && hasErrorCode(error, "no_region_tier")))
        loader.reportFailure(
          ref.model,
          ref.target.kind === "version" ? ref.target.version : undefined,
          error,
        );
    }
  }

  return {
    withModel: use,
    findLoaded: loaded,
    getModel: (ref) => use(ref, (model) => model),
    listLoaded: () => residents.all().flatMap(({ item }) => item ?? []),

    async describe(ref) {
      checkNotUnloaded(ref.model);
      const present = await loaded(ref);
      const manifest =
        present?.manifest ?? (await requireManifest(store, ref.model, await versionOf(ref)));
      const offered = (await versions.listVersions(ref.model)).filter(
        ({ rejectionReason: refusal }) => refusal === undefined,
      );
      return { manifest, versions: offered.map(({ version }) => version) };
    },

    async isReady(ref) {
      const version = await versions.resolve(ref);
      const key = repositoryKey(ref.model, version);
      if (unloaded.has(ref.model)) return false;
      if (
        !isLoaded(key) &&
        !evicted.has(key) &&
        (await versions.rejectionReason(ref.model, version)) === undefined
      )
        loadAside(key);
      return (await loaded(ref)) !== undefined;
    },

    async listIndex() {
      const models = (await store.listModels()).map(async (name) =>
        (await versions.listVersions(name)).map(({ version, rejectionReason: refusal }) =>
          indexEntry(name, version, refusal),
        ),
      );
      return (await Promise.all(models)).flat();
    },

    async load(model) {
      // Someone has published, as likely as not.
      const version = await versions.resolveUncached({
        model,
        target: { kind: "alias", alias: DEFAULT_ALIAS },
      });
      await checkOffered(model, version);
      const key = repositoryKey(model, version);
      loader.clearFailure(key);
      await residents.use(key, (item) => {
        if (residents.get(key)?.item !== item) return; // unloaded meanwhile
        unloaded.delete(model);
        serving.set(repositoryKey(model, DEFAULT_ALIAS), version);
      });
    },

    async unload(model) {
      const keys = residents.all().flatMap(({ key }) => (isKeyOfModel(model, key) ? [key] : []));
      if (
        !unloaded.has(model) &&
        keys.length === 0 &&
        (await store.listVersions(model)).length === 0
      )
        throw registryErrors.modelNotFound(model);
      unloaded.add(model);
      for (const alias of serving.keys()) if (isKeyOfModel(model, alias)) serving.delete(alias);
      await Promise.all(keys.map(remove));
    },

    async preload(refs) {
      const configured = await listPreloadRefs(config, store, versions).catch((error: unknown) => {
        onEvent({ event: "store_unavailable", error });
        return [];
      });
      await loadConcurrently(refs, (ref) => preloadOne(ref, false));
      await loadConcurrently(configured, (ref) => preloadOne(ref, true));
    },

    async dispose() {
      leftovers.stop();
      serving.clear();
      await residents.dispose();
    },
  };

  function indexEntry(
    name: string,
    version: number,
    refusal: string | undefined,
  ): RepositoryIndexEntry {
    const key = repositoryKey(name, version);
    const resident = residents.get(key);
    const entry = { name, version: String(version) };
    if (resident !== undefined)
      return { ...entry, state: resident.item === undefined ? "LOADING" : "READY", reason: "" };
    const evictedReason = evicted.has(key)
      ? "evicted to make room; the next request loads it"
      : undefined;
    return {
      ...entry,
      state: "UNAVAILABLE",
      reason:
        (unloaded.has(name) ? "unloaded" : undefined) ??
        refusal ??
        evictedReason ??
        loader.lastFailureReason(key) ??
        "",
    };
  }
}

const isFulfilled = (work: Promise<unknown>) =>
  work.then(
    () => true,
    () => false,
  );
