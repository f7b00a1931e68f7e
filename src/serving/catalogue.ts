// Which versions there are, as one isolate knows them: aliases revalidated after a while, manifests kept for ever.

import type { Clock } from "../core/clock.ts";
import { EdgeTierError, errors } from "../core/errors.ts";
import { sha256Hex } from "../core/hash.ts";
import { aliasedVersion, type Aliases, type Manifest } from "../registry/manifest.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import type { ModelStore } from "../registry/model-store.ts";
import type { RequestContext } from "./request-context.ts";

export interface CatalogueOptions {
  readonly store: ModelStore;
  readonly clock: Clock;
  /** Aliases younger than this are taken as they are; up to as much again they are taken and read anew meanwhile. */
  readonly aliasTtlMs: number;
  /** For one read of the store. */
  readonly storeTimeoutMs: number;
}

export interface KnownVersion {
  readonly manifest: Manifest;
  /** SHA-256 of the manifest. */
  readonly digest: string;
}

export interface Catalogue {
  /** @throws model_not_found, version_not_found, alias_not_found, manifest_invalid, model_store_unavailable */
  resolve(ref: ModelRef, context: RequestContext): Promise<KnownVersion>;
  /** @throws model_not_found, model_store_unavailable */
  aliases(model: string, context: RequestContext): Promise<Aliases>;
  models(): Promise<string[]>;
  versions(model: string): Promise<number[]>;
}

interface KnownAliases {
  readonly aliases: Aliases;
  readonly readAtMs: number;
}

export function createCatalogue({ store, clock, aliasTtlMs, storeTimeoutMs }: CatalogueOptions): Catalogue {
  const knownAliases = new Map<string, KnownAliases>();
  const knownVersions = new Map<string, KnownVersion>();
  const timeout = () => AbortSignal.timeout(storeTimeoutMs);

  async function readAliases(model: string): Promise<Aliases> {
    const found = await store.readAliases(model, timeout());
    if (found === undefined) {
      knownAliases.delete(model);
      throw errors.modelNotFound(model);
    }
    knownAliases.set(model, { aliases: found.aliases, readAtMs: clock.now() });
    return found.aliases;
  }

  /** The next half of a life goes by without another read: of a refresh under way, or of a store that is away. */
  function postponeRead(model: string, known: KnownAliases): void {
    knownAliases.set(model, { ...known, readAtMs: clock.now() - aliasTtlMs / 2 });
  }

  async function aliases(model: string, context: RequestContext): Promise<Aliases> {
    const known = knownAliases.get(model);
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : clock.now() - known.readAtMs;
    if (known !== undefined && ageMs < 2 * aliasTtlMs) {
      if (ageMs >= aliasTtlMs) {
        postponeRead(model, known);
        context.waitUntil(readAliases(model).catch(() => {}));
      }
      return known.aliases;
    }
    try {
      return await readAliases(model);
    } catch (error) {
      const keep = known !== undefined && error instanceof EdgeTierError && error.retryable;
      if (!keep) throw error;
      // The old version keeps serving while the store is away, and not every request waits to hear that it is.
      postponeRead(model, known);
      return known.aliases;
    }
  }

  async function version(model: string, number: number): Promise<KnownVersion> {
    const key = `${model}@${number}`;
    const known = knownVersions.get(key);
    if (known !== undefined) return known;
    const manifest = await store.readManifest(model, number, timeout());
    if (manifest === undefined) throw errors.versionNotFound(model, number);
    const loaded = { manifest, digest: await sha256Hex(new TextEncoder().encode(JSON.stringify(manifest))) };
    knownVersions.set(key, loaded);
    return loaded;
  }

  return {
    aliases,
    async resolve({ model, target }, context) {
      const byAlias = await aliases(model, context);
      if (target.kind === "version") return await version(model, target.version);
      const aliased = Object.hasOwn(byAlias, target.alias) ? byAlias[target.alias] : undefined;
      if (aliased === undefined) throw errors.aliasNotFound(model, target.alias);
      return await version(model, aliasedVersion(aliased));
    },
    models: () => store.listModels(timeout()),
    versions: (model) => store.listVersions(model, timeout()),
  };
}
