// Resolves references to versions, and decides whether a version may be loaded. It uses the store's aliases and version numbers,
// cached for a while, and the operator's version policy.

import { registryErrors } from "../../registry/errors.ts";
import type { Clock } from "../../core/clock.ts";
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

export function createVersionResolver({
  store,
  operatorConfig: config,
  clock,
  ttlMs,
  retryAfterMs,
  timeoutMs,
  onAliasOverridden: onOverruled,
}: VersionResolverOptions): VersionResolver {
  const known = new Map<string, { readonly inStore: StoreSnapshot; readonly atMs: number }>();
  const once = createSingleFlight<StoreSnapshot>({ clock, retryAfterMs });
  /** Last reported overrides, keyed by "model@alias". */
  const overruled = new Map<string, number>();
  const policyOf = (model: string) => versionPolicyOf(config, model);

  async function ask(model: string): Promise<StoreSnapshot> {
    const signal = AbortSignal.timeout(timeoutMs);
    const needsVersions = policyOf(model) !== "all"; // listing them costs a request of its own
    const [found, listed] = await Promise.all([
      store.readAliases(model, signal),
      needsVersions ? store.listVersions(model, signal) : undefined,
    ]);
    if (found === undefined && (listed ?? (await store.listVersions(model, signal))).length === 0)
      throw registryErrors.modelNotFound(model);
    const aliases = found?.aliases ?? {};
    return { aliases, aliased: Object.values(aliases).map(aliasedVersion), versions: listed ?? [] };
  }

  async function readNow(model: string): Promise<StoreSnapshot> {
    return await once(model, async () => {
      const inStore = await ask(model);
      known.set(model, { inStore, atMs: clock.now() });
      return inStore;
    });
  }

  async function read(model: string, maxAgeMs = ttlMs): Promise<StoreSnapshot> {
    const before = known.get(model);
    if (before !== undefined && clock.now() - before.atMs < maxAgeMs) return before.inStore;
    try {
      return await readNow(model);
    } catch (error) {
      if (before !== undefined) return before.inStore; // the store is away: what was right a moment ago is the best there is
      throw error;
    }
  }

  async function target(
    { model, target: named }: ModelRef,
    readIt: (model: string) => Promise<StoreSnapshot>,
  ): Promise<number> {
    if (named.kind === "version") return named.version;
    const { alias } = named;
    const { aliases, versions } = await readIt(model);
    const found = Object.hasOwn(aliases, alias) ? aliases[alias] : undefined;
    if (found === undefined) throw registryErrors.aliasNotFound(model, alias);
    const version = aliasedVersion(found);
    const servedVersion = resolveServedVersion(policyOf(model), version, { versions });
    const key = `${model}@${alias}`;
    if (servedVersion !== version && overruled.get(key) !== version) {
      overruled.set(key, version);
      onOverruled({ model, alias, version, servedVersion });
    }
    return servedVersion;
  }

  return {
    resolve: (ref) => target(ref, read),
    resolveUncached: (ref) => target(ref, readNow),

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
      const inStore = await read(model);
      return { aliases: inStore.aliases, versions: listPolicyVersions(policyOf(model), inStore) };
    },
  };
}
