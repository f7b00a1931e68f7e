// Version cache: keeps manifests forever, because versions are immutable, and remembers failed reads for a while.

import type { Clock } from "../core/clock.ts";
import { EdgeTierError } from "../core/errors.ts";
import { sha256Hex } from "../core/hash.ts";
import { registryErrors } from "../registry/errors.ts";
import type { Manifest } from "../registry/manifest.ts";
import type { ModelStore } from "../registry/model-store.ts";

export interface VersionCacheOptions {
  readonly store: Pick<ModelStore, "readManifest">;
  readonly clock: Clock;
  /** Time for which a failed read is remembered. */
  readonly failureTtlMs: number;
  /** Timeout of one read of the store. */
  readonly storeTimeoutMs: number;
}

export interface ResolvedVersion {
  readonly manifest: Manifest;
  /** SHA-256 of the manifest. */
  readonly digest: string;
}

/**
 * Reads one version of a model.
 * @param hasAlternative whether another version can serve the request; any failed read is then remembered
 * @throws version_not_found, manifest_untrusted, manifest_invalid, model_store_unavailable
 */
export type ReadVersion = (
  model: string,
  version: number,
  hasAlternative?: boolean,
) => Promise<ResolvedVersion>;

export function createVersionCache({
  store,
  clock,
  failureTtlMs,
  storeTimeoutMs,
}: VersionCacheOptions): ReadVersion {
  const versions = new Map<string, ResolvedVersion>();
  /** Last failed read, by "model@version". */
  const failures = new Map<string, { readonly error: unknown; readonly atMs: number }>();

  async function load(model: string, version: number): Promise<ResolvedVersion> {
    const manifest = await store.readManifest(model, version, AbortSignal.timeout(storeTimeoutMs));
    if (manifest === undefined) throw registryErrors.versionNotFound(model, version);
    return {
      manifest,
      digest: await sha256Hex(new TextEncoder().encode(JSON.stringify(manifest))),
    };
  }

  return async (model, version, hasAlternative = false) => {
    const key = `${model}@${version}`;
    const known = versions.get(key);
    if (known !== undefined) return known;
    const failure = failures.get(key);
    const isRecent = failure !== undefined && clock.now() - failure.atMs < failureTtlMs;
    if (isRecent && (hasAlternative || isRejectedManifest(failure.error))) throw failure.error;
    try {
      const loaded = await load(model, version);
      versions.set(key, loaded);
      failures.delete(key);
      return loaded;
    } catch (error) {
      // Missing versions are not remembered, because clients can request any number of them.
      if (hasAlternative || isRejectedManifest(error))
        failures.set(key, { error, atMs: clock.now() });
      throw error;
    }
  };
}

const isRejectedManifest = (error: unknown): boolean =>
  error instanceof EdgeTierError &&
  (error.code === "manifest_untrusted" || error.code === "manifest_invalid");
