// The models that a region serves: loaded from the store when first asked for, and kept.
//
// A version is loaded once, however many ask at once. An alias goes on to its new version only when that has been
// loaded and warmed up; until then, and where it cannot be loaded, the version before it goes on serving.
// A model that was unloaded stays so until it is loaded by name (Triton's repository extension).

import { systemClock, type Clock } from "../../core/clock.ts";
import { errors, reasonOf } from "../../core/errors.ts";
import { aliasedVersion, type Aliases, type Manifest } from "../../registry/manifest.ts";
import { DEFAULT_ALIAS, type ModelRef } from "../../registry/model-ref.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { loadModel, readKnownManifest, type LoadedModel } from "./load-model.ts";
import { createOnce } from "./once.ts";
import { createUsers } from "./users.ts";

export interface ModelRepository {
  /**
   * The model, loaded if need be.
   * @throws model_not_found, version_not_found, alias_not_found, model_unloaded, and whatever a load can fail with (load-model.ts).
   */
  acquire(ref: ModelRef): Promise<LoadedModel>;
  /** Does `work` with the model, which stays loaded as long as that takes. @throws as acquire, and what `work` throws */
  use<Result>(ref: ModelRef, work: (model: LoadedModel) => Promise<Result>): Promise<Result>;
  /** Manifest and all versions, without loading anything. @throws as acquire */
  describe(ref: ModelRef): Promise<{ readonly manifest: Manifest; readonly versions: readonly number[] }>;
  /** Whether the model answers at once; if not, this starts loading it. @throws model_not_found, alias_not_found */
  isReady(ref: ModelRef): Promise<boolean>;
  /** Every version in the store, and whether it is loaded here. @throws model_store_unavailable */
  index(): Promise<readonly IndexEntry[]>;
  /** What `stable` names, now; a version that was loaded goes on serving where this fails. @throws as acquire */
  load(model: string): Promise<void>;
  /** All its versions; requests under way are answered. It is not loaded again before `load`. @throws model_not_found */
  unload(model: string): Promise<void>;
  dispose(): Promise<void>;
}

/** As Triton's repository index has it. */
export interface IndexEntry {
  readonly name: string;
  readonly version: string;
  readonly state: "READY" | "UNAVAILABLE";
  /** Why it is not ready, where there is more to say than that nobody has asked for it. */
  readonly reason: string;
}

export type RepositoryEvent =
  | { readonly event: "model_loaded"; readonly model: string; readonly version: number; readonly durationMs: number }
  | { readonly event: "model_unloaded"; readonly model: string; readonly version: number }
  | { readonly event: "model_failed"; readonly model: string; readonly version: number; readonly error: unknown };

export interface ModelRepositoryOptions {
  readonly store: ModelStore;
  readonly runtime: Runtime;
  readonly clock?: Clock;
  /** How long an alias is believed before the store is asked again. */
  readonly aliasTtlMs?: number;
  /** How long a failed load is reported again before it is tried anew. */
  readonly retryAfterMs?: number;
  readonly loadTimeoutMs?: number;
  readonly onEvent?: (event: RepositoryEvent) => void;
}

export function createModelRepository(options: ModelRepositoryOptions): ModelRepository {
  const { store, runtime, clock = systemClock, aliasTtlMs = 5_000, retryAfterMs = 1_000, loadTimeoutMs = 120_000, onEvent = () => {} } = options;
  /** By "model@version". */
  const loaded = new Map<string, LoadedModel>();
  /** By "model@alias": what the alias was last answered with. */
  const serving = new Map<string, LoadedModel>();
  /** By model. */
  const aliasesRead = new Map<string, { readonly aliases: Aliases; readonly atMs: number }>();
  /** By "model@version": why it could not be loaded last. */
  const failures = new Map<string, string>();
  const unloaded = new Set<string>();
  const users = createUsers<LoadedModel>(async ({ tiers }) => void (await Promise.allSettled(tiers.map((tier) => tier.session.dispose()))));
  const loadOnce = createOnce<LoadedModel>(clock, retryAfterMs);
  const readOnce = createOnce<Aliases>(clock, retryAfterMs);

  function load(model: string, version: number): Promise<LoadedModel> {
    const key = `${model}@${version}`;
    const present = loaded.get(key);
    if (present !== undefined) return Promise.resolve(present);
    return loadOnce(key, async () => {
      const startedMs = clock.now();
      try {
        const result = await loadModel(store, runtime, model, version, AbortSignal.timeout(loadTimeoutMs));
        loaded.set(key, result);
        failures.delete(key);
        onEvent({ event: "model_loaded", model, version, durationMs: clock.now() - startedMs });
        return result;
      } catch (error) {
        failures.set(key, reasonOf(error));
        onEvent({ event: "model_failed", model, version, error });
        throw error;
      }
    });
  }

  /** Starts a load that nobody waits for; `onEvent` reports how it ends. */
  function loadAside(model: string, version: number): void {
    load(model, version).catch(() => {});
  }

  async function aliasesOf(model: string): Promise<Aliases> {
    const known = aliasesRead.get(model);
    if (known !== undefined && clock.now() - known.atMs < aliasTtlMs) return known.aliases;
    try {
      return await readOnce(model, async () => {
        const found = await store.readAliases(model, AbortSignal.timeout(loadTimeoutMs));
        if (found === undefined && (await store.listVersions(model)).length === 0) throw errors.modelNotFound(model);
        const aliases = found?.aliases ?? {};
        aliasesRead.set(model, { aliases, atMs: clock.now() });
        return aliases;
      });
    } catch (error) {
      if (known !== undefined) return known.aliases; // the store is away: what was right a moment ago is the best there is
      throw error;
    }
  }

  async function versionOf({ model, target }: ModelRef): Promise<number> {
    if (target.kind === "version") return target.version;
    const aliases = await aliasesOf(model);
    const found = Object.hasOwn(aliases, target.alias) ? aliases[target.alias] : undefined;
    if (found === undefined) throw errors.aliasNotFound(model, target.alias);
    return aliasedVersion(found);
  }

  async function acquire(ref: ModelRef): Promise<LoadedModel> {
    if (unloaded.has(ref.model)) throw errors.modelUnloaded(ref.model);
    const version = await versionOf(ref);
    if (ref.target.kind === "version") return await load(ref.model, version);

    const alias = `${ref.model}@${ref.target.alias}`;
    const current = serving.get(alias);
    if (current !== undefined && !loaded.has(`${ref.model}@${version}`)) {
      loadAside(ref.model, version);
      return current;
    }
    const result = await load(ref.model, version);
    serving.set(alias, result);
    return result;
  }

  return {
    acquire,
    use: async (ref, work) => await users.during(await acquire(ref), work),

    async describe(ref) {
      const version = await versionOf(ref);
      const present = loaded.get(`${ref.model}@${version}`);
      const manifest = present?.manifest ?? (await readKnownManifest(store, ref.model, version));
      return { manifest, versions: await store.listVersions(ref.model) };
    },

    async isReady(ref) {
      const version = await versionOf(ref);
      if (unloaded.has(ref.model)) return false;
      const ready = loaded.has(`${ref.model}@${version}`);
      if (!ready) loadAside(ref.model, version);
      return ready;
    },

    async index() {
      const models = await store.listModels();
      const entries = models.map(async (name) => {
        const versions = await store.listVersions(name);
        return versions.map((version): IndexEntry => {
          const key = `${name}@${version}`;
          const ready = loaded.has(key);
          return { name, version: String(version), state: ready ? "READY" : "UNAVAILABLE", reason: ready ? "" : unloaded.has(name) ? "unloaded" : (failures.get(key) ?? "") };
        });
      });
      return (await Promise.all(entries)).flat();
    },

    async load(model) {
      aliasesRead.delete(model); // someone has published, as likely as not
      const ref: ModelRef = { model, target: { kind: "alias", alias: DEFAULT_ALIAS } };
      const version = await versionOf(ref);
      const result = await load(model, version);
      unloaded.delete(model);
      serving.set(`${model}@${DEFAULT_ALIAS}`, result);
    },

    async unload(model) {
      if (!unloaded.has(model) && (await store.listVersions(model)).length === 0) throw errors.modelNotFound(model);
      unloaded.add(model);
      for (const key of serving.keys()) if (key.startsWith(`${model}@`)) serving.delete(key);
      const gone = [...loaded].filter(([key]) => key.startsWith(`${model}@`));
      for (const [key, { manifest }] of gone) {
        loaded.delete(key);
        onEvent({ event: "model_unloaded", model, version: manifest.version });
      }
      await Promise.all(gone.map(([, one]) => users.retire(one)));
    },

    async dispose() {
      const tiers = [...loaded.values()].flatMap((model) => model.tiers);
      loaded.clear();
      serving.clear();
      await Promise.allSettled(tiers.map((tier) => tier.session.dispose()));
    },
  };
}
