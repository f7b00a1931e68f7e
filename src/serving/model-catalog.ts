// Which versions there are, as one isolate knows them: aliases revalidated after a while, manifests kept for ever.
//
// An alias whose version cannot be read, or is not trusted, stays with the version that it named before.

import { registryErrors } from "../registry/errors.ts";
import type { Clock } from "../core/clock.ts";
import { EdgeTierError } from "../core/errors.ts";
import { sha256Hex } from "../core/hash.ts";
import { previousVersionsOf, listWeightedAliases } from "../registry/aliases.ts";
import {
  aliasedVersion,
  type Aliases,
  type AliasTarget,
  type ArtifactRef,
  type Manifest,
} from "../registry/manifest.ts";
import { DEFAULT_ALIAS, type ModelRef } from "../registry/model-ref.ts";
import type { ModelStore } from "../registry/model-store.ts";
import { chooseCanary } from "./canary.ts";
import type { RequestContext } from "./request-context.ts";

export interface ModelCatalogOptions {
  readonly store: ModelStore;
  readonly clock: Clock;
  /** Aliases younger than this are taken as they are; up to as much again they are taken and read anew meanwhile. */
  readonly aliasTtlMs: number;
  /** For one read of the store. */
  readonly storeTimeoutMs: number;
  /** Once for each version that an alias names and that another one answers for. */
  readonly onVersionRejected?: (refused: RejectedVersion) => void;
}

export interface RejectedVersion {
  readonly model: string;
  readonly alias: string;
  readonly version: number;
  readonly servedVersion: number;
  readonly error: unknown;
}

export interface ResolvedVersion {
  readonly manifest: Manifest;
  /** SHA-256 of the manifest. */
  readonly digest: string;
}

export interface SelectedVersion extends ResolvedVersion {
  /** Canaries take a share: another request for the same may get another version. */
  readonly isCanarySplit: boolean;
}

export interface ModelCatalog {
  /** What a reference names. @throws model_not_found, version_not_found, alias_not_found, manifest_untrusted, manifest_invalid, model_store_unavailable */
  resolve(ref: ModelRef, context: RequestContext): Promise<ResolvedVersion>;
  /** What answers this request: for the default alias that may be a canary, by the request's id. @throws as resolve */
  resolveForRequest(ref: ModelRef, context: RequestContext): Promise<SelectedVersion>;
  /** @throws model_not_found, model_store_unavailable */
  readAliases(model: string, context: RequestContext): Promise<Aliases>;
  listModels(): Promise<string[]>;
  listVersions(model: string): Promise<number[]>;
  /** One that a manifest names, for a route to answer with. @throws artifact_corrupt, model_store_unavailable */
  readArtifact(ref: ArtifactRef): Promise<Uint8Array<ArrayBuffer>>;
}

interface CachedAliases {
  readonly aliases: Aliases;
  readonly readAtMs: number;
}

export function createModelCatalog({
  store,
  clock,
  aliasTtlMs,
  storeTimeoutMs,
  onVersionRejected: onRefused = () => {},
}: ModelCatalogOptions): ModelCatalog {
  const knownAliases = new Map<string, CachedAliases>();
  const knownVersions = new Map<string, ResolvedVersion>();
  /** By "model@version": why it could not be read. */
  const unread = new Map<string, { readonly error: unknown; readonly atMs: number }>();
  /** By "model@alias": the version that it was answered with last. */
  const served = new Map<string, number>();
  /** By "model@alias": the version that was told to be refused last. */
  const told = new Map<string, number>();
  const timeout = () => AbortSignal.timeout(storeTimeoutMs);

  async function readAliases(model: string): Promise<Aliases> {
    const found = await store.readAliases(model, timeout());
    if (found === undefined) {
      knownAliases.delete(model);
      throw registryErrors.modelNotFound(model);
    }
    knownAliases.set(model, { aliases: found.aliases, readAtMs: clock.now() });
    return found.aliases;
  }

  /** The next half of a life goes by without another read: of a refresh under way, or of a store that is away. */
  function postponeRead(model: string, known: CachedAliases): void {
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

  async function aliasesOfRequested(model: string, context: RequestContext): Promise<Aliases> {
    const found = await aliases(model, context);
    context.model = model;
    return found;
  }

  /** @param hasOther that can answer in its place: the store is then not asked again in every request, whatever it said */
  async function version(
    model: string,
    number: number,
    hasOther = false,
  ): Promise<ResolvedVersion> {
    const key = `${model}@${number}`;
    const known = knownVersions.get(key);
    if (known !== undefined) return known;
    const before = unread.get(key);
    const isRecent = before !== undefined && clock.now() - before.atMs < aliasTtlMs;
    if (isRecent && (hasOther || isRejectedManifest(before.error))) throw before.error;
    try {
      const loaded = await readVersion(model, number);
      knownVersions.set(key, loaded);
      unread.delete(key);
      return loaded;
    } catch (error) {
      if (hasOther || isRejectedManifest(error)) unread.set(key, { error, atMs: clock.now() }); // of what else is not there, anyone may ask for anything
      throw error;
    }
  }

  async function readVersion(model: string, number: number): Promise<ResolvedVersion> {
    const manifest = await store.readManifest(model, number, timeout());
    if (manifest === undefined) throw registryErrors.versionNotFound(model, number);
    return {
      manifest,
      digest: await sha256Hex(new TextEncoder().encode(JSON.stringify(manifest))),
    };
  }

  function tell(refusal: RejectedVersion): void {
    const key = `${refusal.model}@${refusal.alias}`;
    if (told.get(key) === refusal.version) return;
    told.set(key, refusal.version);
    onRefused(refusal);
  }

  async function aliased(
    model: string,
    alias: string,
    target: AliasTarget,
  ): Promise<ResolvedVersion> {
    const key = `${model}@${alias}`;
    const wanted = aliasedVersion(target);
    const last = served.get(key);
    try {
      const known = await version(model, wanted, last !== undefined && last !== wanted);
      served.set(key, wanted);
      return known;
    } catch (error) {
      const before = hasCode(error, "model_store_unavailable") ? [] : previousVersionsOf(target); // the store could not give them either
      for (const other of new Set([last, ...before])) {
        const known =
          other === undefined || other === wanted
            ? undefined
            : await version(model, other).catch(() => undefined);
        if (known === undefined) continue;
        tell({ model, alias, version: wanted, servedVersion: known.manifest.version, error });
        served.set(key, known.manifest.version);
        return known;
      }
      throw error;
    }
  }

  async function resolve(
    { model, target }: ModelRef,
    context: RequestContext,
  ): Promise<ResolvedVersion> {
    const byAlias = await aliasesOfRequested(model, context);
    if (target.kind === "version") return await version(model, target.version);
    const named = Object.hasOwn(byAlias, target.alias) ? byAlias[target.alias] : undefined;
    if (named === undefined) throw registryErrors.aliasNotFound(model, target.alias);
    return await aliased(model, target.alias, named);
  }

  return {
    readAliases: aliases,
    resolve,
    async resolveForRequest(ref, context) {
      const { model, target } = ref;
      const isDefault = target.kind === "alias" && target.alias === DEFAULT_ALIAS;
      const byAlias = isDefault ? await aliasesOfRequested(model, context) : {};
      const isDrawn = listWeightedAliases(byAlias).length > 0;
      const canary = await chooseCanary(byAlias, `${model} ${context.requestId}`);
      if (canary === undefined) return { ...(await resolve(ref, context)), isCanarySplit: isDrawn };
      try {
        return { ...(await version(model, canary.version, true)), isCanarySplit: isDrawn };
      } catch (error) {
        const known = await resolve(ref, context);
        tell({
          model,
          alias: canary.alias,
          version: canary.version,
          servedVersion: known.manifest.version,
          error,
        });
        return { ...known, isCanarySplit: isDrawn };
      }
    },
    listModels: () => store.listModels(timeout()),
    listVersions: (model) => store.listVersions(model, timeout()),
    readArtifact: (ref) => store.readArtifact(ref, timeout()),
  };
}

const isRejectedManifest = (error: unknown): boolean =>
  hasCode(error, "manifest_untrusted", "manifest_invalid");

const hasCode = (error: unknown, ...codes: readonly string[]): boolean =>
  error instanceof EdgeTierError && codes.includes(error.code);
