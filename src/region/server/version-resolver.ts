// Resolves references to versions, and decides whether a version may be loaded. It uses the store's aliases and version numbers,
// cached for a while, and the operator's version policy.

import type { Clock } from "../../core/clock.ts";
import { registryErrors } from "../../registry/errors.ts";
import { aliasedVersion, type Aliases } from "../../registry/manifest.ts";
import type { ModelRef } from "../../registry/model-ref.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import { type OperatorConfig, versionPolicyOf } from "./operator-config.ts";
import { createSingleFlight } from "./single-flight.ts";
import {
  listPolicyVersions,
  policyRejection,
  resolveServedVersion,
  type PublishedVersions,
} from "./version-policy.ts";

export interface VersionResolver {
  /**
   * Returns the version that serves this reference.
   * @throws model_not_found, alias_not_found; model_store_unavailable, aliases_invalid if nothing was read before
   */
  resolve(ref: ModelRef): Promise<number>;
  /** Resolves with a fresh read of the store. @throws as resolve, and if the store is unavailable */
  resolveUncached(ref: ModelRef): Promise<number>;
  /** @returns why the version may not be loaded; undefined if it may @throws as resolve */
  rejectionReason(model: string, version: number): Promise<string | undefined>;
  /** Lists the store's versions in ascending order, each with the reason of its rejection. @throws model_store_unavailable */
  listVersions(
    model: string,
  ): Promise<readonly { readonly version: number; readonly rejectionReason: string | undefined }[]>;
  /** Returns the aliases, and the versions that the policy names explicitly. @throws as resolve */
  listReferenced(
    model: string,
  ): Promise<{ readonly aliases: Aliases; readonly versions: readonly number[] }>;
}

export interface VersionResolverOptions {
  readonly store: ModelStore;
  readonly operatorConfig: OperatorConfig;
  readonly clock: Clock;
  /** How long the store's answer is cached. */
  readonly ttlMs: number;
  /** Time during which a failed read is repeated without a new attempt. */
  readonly retryAfterMs: number;
  readonly timeoutMs: number;
  /** Called once per alias and version if the policy overrides the alias. */
  readonly onAliasOverridden: (alias: AliasOverride) => void;
}

export interface AliasOverride {
  readonly model: string;
  readonly alias: string;
  /** Version that the alias names in the store. */
  readonly version: number;
  readonly servedVersion: number;
}

interface StoreSnapshot extends PublishedVersions {
  readonly aliases: Aliases;
}

/** A rejected version may just have been published. The store is read again after this time, but not for every request. */
const REJECTION_TTL_MS = 1_000;

export function createVersionResolver(options: VersionResolverOptions): VersionResolver {
  const { store, operatorConfig, ttlMs, onAliasOverridden } = options;
  const { read, readUncached } = createStoreReader(options);
  /** Last reported overrides, keyed by "model@alias". */
  const reportedOverrides = new Map<string, number>();
  const policyOf = (model: string) => versionPolicyOf(operatorConfig, model);

  async function resolveWith(
    readModel: (model: string) => Promise<StoreSnapshot>,
    { model, target }: ModelRef,
  ): Promise<number> {
    if (target.kind === "version") return target.version;
    const { alias } = target;
    const { aliases, versions } = await readModel(model);
    const found = Object.hasOwn(aliases, alias) ? aliases[alias] : undefined;
    if (found === undefined) throw registryErrors.aliasNotFound(model, alias);
    const version = aliasedVersion(found);
    const servedVersion = resolveServedVersion(policyOf(model), version, { versions });
    const key = `${model}@${alias}`;
    if (servedVersion !== version && reportedOverrides.get(key) !== version) {
      reportedOverrides.set(key, version);
      onAliasOverridden({ model, alias, version, servedVersion });
    }
    return servedVersion;
  }

  return {
    resolve: (ref) => resolveWith(read, ref),
    resolveUncached: (ref) => resolveWith(readUncached, ref),

    async rejectionReason(model, version) {
      const policy = policyOf(model);
      if (policy === "all" || policyRejection(policy, version, await read(model)) === undefined)
        return undefined;
      return policyRejection(policy, version, await read(model, Math.min(ttlMs, REJECTION_TTL_MS)));
    },

    async listVersions(model) {
      const versions = await store.listVersions(model);
      const policy = policyOf(model);
      const { aliased } =
        policy === "all" ? { aliased: [] } : await read(model).catch(() => ({ aliased: [] }));
      return versions.map((version) => ({
        version,
        rejectionReason: policyRejection(policy, version, { versions, aliased }),
      }));
    },

    async listReferenced(model) {
      const snapshot = await read(model);
      return { aliases: snapshot.aliases, versions: listPolicyVersions(policyOf(model), snapshot) };
    },
  };
}

/** Reads a model's aliases and versions from the store, with a cache and single flight. */
function createStoreReader({
  store,
  operatorConfig,
  clock,
  ttlMs,
  retryAfterMs,
  timeoutMs,
}: VersionResolverOptions) {
  const cache = new Map<string, { readonly snapshot: StoreSnapshot; readonly atMs: number }>();
  const singleFlight = createSingleFlight<StoreSnapshot>({ clock, retryAfterMs });

  async function readStore(model: string): Promise<StoreSnapshot> {
    const signal = AbortSignal.timeout(timeoutMs);
    const needsVersions = versionPolicyOf(operatorConfig, model) !== "all"; // Listing them costs a request of its own.
    const [found, listed] = await Promise.all([
      store.readAliases(model, signal),
      needsVersions ? store.listVersions(model, signal) : undefined,
    ]);
    if (found === undefined && (listed ?? (await store.listVersions(model, signal))).length === 0)
      throw registryErrors.modelNotFound(model);
    const aliases = found?.aliases ?? {};
    return { aliases, aliased: Object.values(aliases).map(aliasedVersion), versions: listed ?? [] };
  }

  async function readUncached(model: string): Promise<StoreSnapshot> {
    return await singleFlight(model, async () => {
      const snapshot = await readStore(model);
      cache.set(model, { snapshot, atMs: clock.now() });
      return snapshot;
    });
  }

  async function read(model: string, maxAgeMs = ttlMs): Promise<StoreSnapshot> {
    const cached = cache.get(model);
    if (cached !== undefined && clock.now() - cached.atMs < maxAgeMs) return cached.snapshot;
    try {
      return await readUncached(model);
    } catch (error) {
      if (cached !== undefined) return cached.snapshot; // A stale answer is better than none.
      throw error;
    }
  }

  return { read, readUncached };
}
