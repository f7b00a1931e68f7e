// State behind the model repository: the versions that are loaded, evicted or unloaded, and those that aliases serve.

import { systemClock } from "../../core/clock.ts";
import type { ModelRef } from "../../registry/model-ref.ts";
import { disposeTiers, type LoadedRegionModel } from "./load-region-model.ts";
import { createModelCache, type ModelCache } from "./model-cache.ts";
import { createModelLoader, type ModelLoader } from "./model-loader.ts";
import type { ModelRepositoryOptions } from "./model-repository-options.ts";
import { EMPTY_OPERATOR_CONFIG } from "./operator-config.ts";
import { isKeyOfModel, parseVersionKey, repositoryKey } from "./repository-events.ts";
import { createStaleVersionReaper } from "./stale-version-reaper.ts";
import { createVersionResolver, type VersionResolver } from "./version-resolver.ts";

export interface LoadedVersions {
  readonly loader: ModelLoader;
  readonly versions: VersionResolver;
  /** Keyed by "model@version". */
  readonly cache: ModelCache<LoadedRegionModel>;
  /** Version that each alias last served, keyed by "model@alias". */
  readonly serving: Map<string, number>;
  /** Keys of evicted versions, "model@version". */
  readonly evicted: Set<string>;
  /** Names of unloaded models. */
  readonly unloaded: Set<string>;
  isLoaded(key: string): boolean;
  /** Returns the model that this reference uses now, without loading it. @throws model_not_found, alias_not_found */
  find(ref: ModelRef): Promise<LoadedRegionModel | undefined>;
  /** Starts a load that nobody awaits; `onEvent` reports its outcome. */
  loadInBackground(key: string): void;
  unload(key: string): Promise<void>;
  dispose(): Promise<void>;
}

export function createLoadedVersions(options: ModelRepositoryOptions): LoadedVersions {
  const { clock = systemClock, onEvent = () => {} } = options;
  const { memoryBudgetBytes = 0, memoryTimeoutMs = 10_000, staleVersionIdleMs = 300_000 } = options;
  const serving = new Map<string, number>();
  const evicted = new Set<string>();
  const { loader, versions } = createStoreAccess(options);
  const cache = createModelCache<LoadedRegionModel>({
    clock,
    memoryBudgetBytes,
    memoryTimeoutMs,
    async load(key, reserveMemory) {
      const loaded = await loader.load(key, reserveMemory);
      evicted.delete(key);
      reaper.schedule();
      return loaded;
    },
    unload: ({ tiers }) => disposeTiers(tiers),
    onEvict(key, bytes) {
      evicted.add(key);
      onEvent({ event: "model_evicted", ...parseVersionKey(key), bytes });
    },
  });
  const reaper = createStaleVersionReaper({
    clock,
    idleMs: staleVersionIdleMs,
    listLoaded: () => cache.all().map(toCachedVersion),
    listReferenced: (model) => listReferenced(versions, serving, model),
    unload,
  });

  async function unload(key: string): Promise<void> {
    onEvent({ event: "model_unloaded", ...parseVersionKey(key) });
    await cache.remove(key);
  }

  return {
    loader,
    versions,
    cache,
    serving,
    evicted,
    unloaded: new Set(),
    isLoaded: (key) => cache.get(key)?.item !== undefined,
    find: (ref) => findLoaded({ versions, cache, serving }, ref),
    loadInBackground: (key) => void cache.use(key, () => {}).catch(() => {}),
    unload,
    async dispose() {
      reaper.stop();
      serving.clear();
      await cache.dispose();
    },
  };
}

function createStoreAccess({
  store,
  runtime,
  operatorConfig = EMPTY_OPERATOR_CONFIG,
  clock = systemClock,
  aliasTtlMs = 5_000,
  retryAfterMs = 1_000,
  storeTimeoutMs = 120_000,
  onEvent = () => {},
}: ModelRepositoryOptions): Pick<LoadedVersions, "loader" | "versions"> {
  return {
    loader: createModelLoader({
      store,
      runtime,
      operatorConfig,
      clock,
      retryAfterMs,
      storeTimeoutMs,
      onEvent,
    }),
    versions: createVersionResolver({
      store,
      operatorConfig,
      clock,
      ttlMs: aliasTtlMs,
      retryAfterMs,
      timeoutMs: storeTimeoutMs,
      onAliasOverridden: (alias) => onEvent({ event: "alias_overruled", ...alias }),
    }),
  };
}

async function findLoaded(
  { versions, cache, serving }: Pick<LoadedVersions, "versions" | "cache" | "serving">,
  { model, target }: ModelRef,
): Promise<LoadedRegionModel | undefined> {
  const findVersion = (version: number | undefined) =>
    version === undefined ? undefined : cache.get(repositoryKey(model, version))?.item;
  return (
    findVersion(await versions.resolve({ model, target })) ??
    (target.kind === "alias"
      ? findVersion(serving.get(repositoryKey(model, target.alias)))
      : undefined)
  );
}

/** A version that is still loading counts as in use, because its requests are waiting. */
const toCachedVersion = ({
  key,
  useCount,
  lastUsedAtMs,
}: ReturnType<ModelCache<LoadedRegionModel>["all"]>[number]) => ({
  key,
  ...parseVersionKey(key),
  isInUse: useCount > 0,
  lastUsedAtMs,
});

/** Returns the versions that an alias or the policy references, and those that an alias serves until it has switched. */
async function listReferenced(
  versions: VersionResolver,
  serving: ReadonlyMap<string, number>,
  model: string,
): Promise<ReadonlySet<number>> {
  const referenced = await versions.listReferenced(model);
  const aliased = Object.keys(referenced.aliases).map((alias) =>
    versions.resolve({ model, target: { kind: "alias", alias } }),
  );
  const served = [...serving]
    .filter(([key]) => isKeyOfModel(model, key))
    .map(([, version]) => version);
  return new Set([...(await Promise.all(aliased)), ...referenced.versions, ...served]);
}
