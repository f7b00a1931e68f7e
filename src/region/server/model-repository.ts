// Repository of a region's models: loads a version on its first request and keeps it while memory lasts.
//
// Concurrent requests share one load. An alias switches to a new version only after that version was loaded and warmed up.
// The previous version keeps serving until then, and if the load fails. An unloaded model stays unloaded until it is
// loaded by name (Triton's repository extension), whereas an evicted model is loaded again by its next request.

import { registryErrors } from "../../registry/errors.ts";
import type { Manifest } from "../../registry/manifest.ts";
import { DEFAULT_ALIAS, type ModelRef } from "../../registry/model-ref.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import { regionServerErrors } from "./errors.ts";
import { type LoadedRegionModel, requireManifest } from "./load-region-model.ts";
import { createLoadedVersions, type LoadedVersions } from "./loaded-versions.ts";
import { hasErrorCode } from "./model-loader.ts";
import type { ModelRepositoryOptions } from "./model-repository-options.ts";
import { EMPTY_OPERATOR_CONFIG } from "./operator-config.ts";
import { listPreloadRefs, loadConcurrently } from "./preload-models.ts";
import {
  isKeyOfModel,
  parseVersionKey,
  repositoryKey,
  type RepositoryEvent,
} from "./repository-events.ts";

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

export type { ModelRepositoryOptions, RepositoryEvent };

export function createModelRepository(options: ModelRepositoryOptions): ModelRepository {
  const { store } = options;
  const state = createLoadedVersions(options);
  const { versions, cache, evicted, unloaded } = state;
  const withModel = createModelUser(state);

  return {
    withModel,
    findLoaded: state.find,
    getModel: (ref) => withModel(ref, (model) => model),
    listLoaded: () => cache.all().flatMap(({ item }) => item ?? []),

    async describe(ref) {
      rejectUnloaded(state, ref.model);
      const loaded = await state.find(ref);
      const manifest =
        loaded?.manifest ??
        (await requireManifest(store, ref.model, await resolveOffered(state, ref)));
      const offered = (await versions.listVersions(ref.model)).filter(
        ({ rejectionReason }) => rejectionReason === undefined,
      );
      return { manifest, versions: offered.map(({ version }) => version) };
    },

    async isReady(ref) {
      const version = await versions.resolve(ref);
      const key = repositoryKey(ref.model, version);
      if (unloaded.has(ref.model)) return false;
      if (
        !state.isLoaded(key) &&
        !evicted.has(key) &&
        (await versions.rejectionReason(ref.model, version)) === undefined
      )
        state.loadInBackground(key);
      return (await state.find(ref)) !== undefined;
    },

    async listIndex() {
      const models = (await store.listModels()).map(async (name) =>
        (await versions.listVersions(name)).map(({ version, rejectionReason }) =>
          createIndexEntry(state, name, version, rejectionReason),
        ),
      );
      return (await Promise.all(models)).flat();
    },

    load: (model) => loadModel(state, model),
    unload: (model) => unloadModel(state, store, model),
    preload: (refs) => preloadModels(state, options, withModel, refs),
    dispose: state.dispose,
  };
}

/** Returns the function that uses a model; an alias serves its previous version until the new one is loaded. */
function createModelUser(state: LoadedVersions): ModelRepository["withModel"] {
  const { cache, serving } = state;

  async function useVersion<Result>(
    key: string,
    work: (model: LoadedRegionModel) => Promise<Result> | Result,
  ): Promise<Result> {
    rejectUnloaded(state, parseVersionKey(key).model); // It may have been unloaded during the store's response.
    return await cache.use(key, work);
  }

  return async function withModel(ref, work) {
    rejectUnloaded(state, ref.model);
    const version = await resolveOffered(state, ref);
    const key = repositoryKey(ref.model, version);
    if (ref.target.kind === "version") return await useVersion(key, work);

    const alias = repositoryKey(ref.model, ref.target.alias);
    const previous = repositoryKey(ref.model, serving.get(alias) ?? version);
    if (previous !== key && !state.isLoaded(key)) {
      if (state.isLoaded(previous)) {
        state.loadInBackground(key);
        return await useVersion(previous, work);
      }
      // The previous version was evicted. It is loaded again only if the new one cannot be loaded.
      if (!(await isFulfilled(useVersion(key, () => {})))) return await useVersion(previous, work);
    }
    return await useVersion(key, (model) => {
      serving.set(alias, version);
      return work(model);
    });
  };
}

function rejectUnloaded({ unloaded }: LoadedVersions, model: string): void {
  if (unloaded.has(model)) throw regionServerErrors.modelUnloaded(model);
}

/** Rejects versions that the policy excludes, unless they are still loaded. @throws version_unavailable */
async function rejectExcluded(
  { isLoaded, versions }: LoadedVersions,
  model: string,
  version: number,
): Promise<void> {
  if (isLoaded(repositoryKey(model, version))) return;
  const reason = await versions.rejectionReason(model, version);
  if (reason !== undefined) throw regionServerErrors.versionUnavailable(model, version, reason);
}

async function resolveOffered(state: LoadedVersions, ref: ModelRef): Promise<number> {
  const version = await state.versions.resolve(ref);
  await rejectExcluded(state, ref.model, version);
  return version;
}

async function loadModel(state: LoadedVersions, model: string): Promise<void> {
  const { loader, versions, cache, serving, unloaded } = state;
  // The store is read without the cache, because a load usually follows a publication.
  const version = await versions.resolveUncached({
    model,
    target: { kind: "alias", alias: DEFAULT_ALIAS },
  });
  await rejectExcluded(state, model, version);
  const key = repositoryKey(model, version);
  loader.clearFailure(key);
  await cache.use(key, (item) => {
    if (cache.get(key)?.item !== item) return; // Unloaded in the meantime.
    unloaded.delete(model);
    serving.set(repositoryKey(model, DEFAULT_ALIAS), version);
  });
}

async function unloadModel(
  { cache, serving, unloaded, unload }: LoadedVersions,
  store: ModelStore,
  model: string,
): Promise<void> {
  const keys = cache.all().flatMap(({ key }) => (isKeyOfModel(model, key) ? [key] : []));
  if (!unloaded.has(model) && keys.length === 0 && (await store.listVersions(model)).length === 0)
    throw registryErrors.modelNotFound(model);
  unloaded.add(model);
  for (const alias of serving.keys()) if (isKeyOfModel(model, alias)) serving.delete(alias);
  await Promise.all(keys.map(unload));
}

async function preloadModels(
  state: LoadedVersions,
  { store, operatorConfig = EMPTY_OPERATOR_CONFIG, onEvent = () => {} }: ModelRepositoryOptions,
  withModel: ModelRepository["withModel"],
  refs: readonly ModelRef[],
): Promise<void> {
  const { loader, versions, evicted, unloaded } = state;

  /** @param isConfigured whether the operator's configuration lists the model; it may then lack a region tier */
  async function preloadOne(ref: ModelRef, isConfigured: boolean): Promise<void> {
    const { model, target } = ref;
    try {
      // An evicted version is not preloaded, because it would displace the models that took its place.
      if (unloaded.has(model) || evicted.has(repositoryKey(model, await versions.resolve(ref))))
        return;
      await withModel(ref, () => {});
    } catch (error) {
      if (!(isConfigured && hasErrorCode(error, "no_region_tier")))
        loader.reportFailure(model, target.kind === "version" ? target.version : undefined, error);
    }
  }

  const configured = await listPreloadRefs(operatorConfig, store, versions).catch(
    (error: unknown) => {
      onEvent({ event: "store_unavailable", error });
      return [];
    },
  );
  await loadConcurrently(refs, (ref) => preloadOne(ref, false));
  await loadConcurrently(configured, (ref) => preloadOne(ref, true));
}

function createIndexEntry(
  { cache, loader, evicted, unloaded }: LoadedVersions,
  name: string,
  version: number,
  rejectionReason: string | undefined,
): RepositoryIndexEntry {
  const key = repositoryKey(name, version);
  const cached = cache.get(key);
  const entry = { name, version: String(version) };
  if (cached !== undefined)
    return { ...entry, state: cached.item === undefined ? "LOADING" : "READY", reason: "" };
  const evictionReason = evicted.has(key)
    ? "evicted to make room; the next request loads it"
    : undefined;
  return {
    ...entry,
    state: "UNAVAILABLE",
    reason:
      (unloaded.has(name) ? "unloaded" : undefined) ??
      rejectionReason ??
      evictionReason ??
      loader.lastFailureReason(key) ??
      "",
  };
}

const isFulfilled = (work: Promise<unknown>) =>
  work.then(
    () => true,
    () => false,
  );
