// Model catalog: resolves model references to versions, as one isolate knows them.
//
// If an alias's version cannot be read or is not trusted, the alias keeps serving its previous version.

import type { Clock } from "../core/clock.ts";
import { EdgeTierError } from "../core/errors.ts";
import { previousVersionsOf, listWeightedAliases } from "../registry/aliases.ts";
import { registryErrors } from "../registry/errors.ts";
import {
  aliasedVersion,
  type Aliases,
  type AliasTarget,
  type ArtifactRef,
} from "../registry/manifest.ts";
import { DEFAULT_ALIAS, type ModelRef } from "../registry/model-ref.ts";
import type { ModelStore } from "../registry/model-store.ts";
import { createAliasCache, type ReadAliases } from "./alias-cache.ts";
import { chooseCanary } from "./canary.ts";
import type { RequestContext } from "./request-context.ts";
import { createVersionCache, type ReadVersion, type ResolvedVersion } from "./version-cache.ts";

export type { ResolvedVersion };

export interface ModelCatalogOptions {
  readonly store: ModelStore;
  readonly clock: Clock;
  /** Age from which aliases are refreshed in the background; from twice this age, requests wait for the read. */
  readonly aliasTtlMs: number;
  /** Timeout of one read of the store. */
  readonly storeTimeoutMs: number;
  /** Called once per alias and version that another version replaces. */
  readonly onVersionRejected?: (rejection: RejectedVersion) => void;
}

export interface RejectedVersion {
  readonly model: string;
  readonly alias: string;
  readonly version: number;
  readonly servedVersion: number;
  readonly error: unknown;
}

export interface SelectedVersion extends ResolvedVersion {
  /** Whether canaries share the traffic, so that an equal request may get another version. */
  readonly isCanarySplit: boolean;
}

export interface ModelCatalog {
  /**
   * Resolves a reference, without canaries.
   * @throws model_not_found, version_not_found, alias_not_found, manifest_untrusted, manifest_invalid, model_store_unavailable
   */
  resolve(ref: ModelRef, context: RequestContext): Promise<ResolvedVersion>;
  /** Selects the version that serves this request. A canary may replace the default alias, by the request id. @throws as resolve */
  resolveForRequest(ref: ModelRef, context: RequestContext): Promise<SelectedVersion>;
  /** @throws model_not_found, model_store_unavailable */
  readAliases(model: string, context: RequestContext): Promise<Aliases>;
  listModels(): Promise<string[]>;
  listVersions(model: string): Promise<number[]>;
  /** Reads an artifact that a manifest names. @throws artifact_corrupt, model_store_unavailable */
  readArtifact(ref: ArtifactRef): Promise<Uint8Array<ArrayBuffer>>;
}

export function createModelCatalog(options: ModelCatalogOptions): ModelCatalog {
  const { store, aliasTtlMs, storeTimeoutMs } = options;
  const timeout = () => AbortSignal.timeout(storeTimeoutMs);
  const readAliases = createAliasCache(options);
  const readVersion = createVersionCache({ ...options, failureTtlMs: aliasTtlMs });
  const reportRejection = createRejectionReporter(options.onVersionRejected ?? (() => {}));
  const resolveAlias = createAliasResolver(readVersion, reportRejection);
  const readRequestedAliases: ReadAliases = async (model, context) => {
    const aliases = await readAliases(model, context);
    context.model = model;
    return aliases;
  };

  async function resolve(
    { model, target }: ModelRef,
    context: RequestContext,
  ): Promise<ResolvedVersion> {
    const aliases = await readRequestedAliases(model, context);
    if (target.kind === "version") return await readVersion(model, target.version);
    const { alias } = target;
    const aliasTarget = Object.hasOwn(aliases, alias) ? aliases[alias] : undefined;
    if (aliasTarget === undefined) throw registryErrors.aliasNotFound(model, alias);
    return await resolveAlias(model, alias, aliasTarget);
  }

  return {
    readAliases,
    resolve,
    async resolveForRequest(ref, context) {
      const { model, target } = ref;
      const isDefault = target.kind === "alias" && target.alias === DEFAULT_ALIAS;
      const aliases = isDefault ? await readRequestedAliases(model, context) : {};
      const isCanarySplit = listWeightedAliases(aliases).length > 0;
      const canary = await chooseCanary(aliases, `${model} ${context.requestId}`);
      if (canary === undefined) return { ...(await resolve(ref, context)), isCanarySplit };
      const { alias, version } = canary;
      try {
        return { ...(await readVersion(model, version, true)), isCanarySplit };
      } catch (error) {
        const resolved = await resolve(ref, context);
        const servedVersion = resolved.manifest.version;
        reportRejection({ model, alias, version, servedVersion, error });
        return { ...resolved, isCanarySplit };
      }
    },
    listModels: () => store.listModels(timeout()),
    listVersions: (model) => store.listVersions(model, timeout()),
    readArtifact: (ref) => store.readArtifact(ref, timeout()),
  };
}

type ReportRejection = (rejection: RejectedVersion) => void;

/** Reports each rejected version of an alias once. */
function createRejectionReporter(report: ReportRejection): ReportRejection {
  /** Last reported version, by "model@alias". */
  const reportedVersions = new Map<string, number>();
  return (rejection) => {
    const key = `${rejection.model}@${rejection.alias}`;
    if (reportedVersions.get(key) === rejection.version) return;
    reportedVersions.set(key, rejection.version);
    report(rejection);
  };
}

/** Resolves an alias, falling back to the version served last and then to the alias's previous versions. */
function createAliasResolver(readVersion: ReadVersion, reportRejection: ReportRejection) {
  /** Version served last, by "model@alias". */
  const servedVersions = new Map<string, number>();

  return async (model: string, alias: string, target: AliasTarget): Promise<ResolvedVersion> => {
    const key = `${model}@${alias}`;
    const version = aliasedVersion(target);
    const lastVersion = servedVersions.get(key);
    try {
      const hasAlternative = lastVersion !== undefined && lastVersion !== version;
      const resolved = await readVersion(model, version, hasAlternative);
      servedVersions.set(key, version);
      return resolved;
    } catch (error) {
      const isStoreUnavailable =
        error instanceof EdgeTierError && error.code === "model_store_unavailable";
      const previousVersions = isStoreUnavailable ? [] : previousVersionsOf(target); // the store could not return them either
      for (const candidate of new Set([lastVersion, ...previousVersions])) {
        if (candidate === undefined || candidate === version) continue;
        const resolved = await readVersion(model, candidate).catch(() => undefined);
        if (resolved === undefined) continue;
        const servedVersion = resolved.manifest.version;
        reportRejection({ model, alias, version, servedVersion, error });
        servedVersions.set(key, servedVersion);
        return resolved;
      }
      throw error;
    }
  };
}
