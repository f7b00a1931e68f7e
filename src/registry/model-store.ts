// ModelStore port: immutable artifacts and manifests, movable aliases. `createModelStore` (object-model-store.ts)
// implements it over any ObjectStore driver.

import type { DeployedEngine } from "./deployed-engine.ts";
import type { Aliases, ArtifactRef, Manifest } from "./manifest.ts";

export interface StoredAliases {
  readonly aliases: Aliases;
  readonly etag: string;
}

export interface SignedManifest {
  readonly manifest: Manifest;
  /** Key ids that the signatures claim. */
  readonly signedBy: readonly string[];
  /** Whether a trusted key's signature was verified; false if the store has no trusted keys. */
  readonly isVerified: boolean;
}

/**
 * Every method throws model_store_unavailable if the store is unreachable or responds with an error.
 * `signal` cancels the request.
 */
export interface ModelStore {
  /** Lists the models with at least one version, sorted by name. */
  listModels(signal?: AbortSignal): Promise<string[]>;
  /** Lists version numbers in ascending order; empty for an unknown model. */
  listVersions(model: string, signal?: AbortSignal): Promise<number[]>;

  /** @returns undefined if the model has no aliases yet @throws aliases_invalid */
  readAliases(model: string, signal?: AbortSignal): Promise<StoredAliases | undefined>;
  /**
   * Replaces the aliases by compare-and-set.
   * @param expectedEtag etag of the aliases before the change; undefined if there were none
   * @throws alias_conflict if another writer changed them since
   */
  writeAliases(
    model: string,
    aliases: Aliases,
    expectedEtag: string | undefined,
  ): Promise<StoredAliases>;

  /** @returns undefined for an unknown version @throws manifest_untrusted before parsing; manifest_invalid */
  readManifest(model: string, version: number, signal?: AbortSignal): Promise<Manifest | undefined>;
  /** Reads a manifest with its signing keys. */
  readSignedManifest(
    model: string,
    version: number,
    signal?: AbortSignal,
  ): Promise<SignedManifest | undefined>;
  /** Writes a new version; rewriting the same content has no effect. @throws version_exists, would_not_be_trusted */
  writeManifest(manifest: Manifest): Promise<{ readonly created: boolean }>;

  /** Reads and verifies an artifact. @throws artifact_corrupt if it is missing, or its size or SHA-256 differs */
  readArtifact(ref: ArtifactRef, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  /** Streams an artifact; the caller must verify its digest. @throws artifact_corrupt if it is missing, or its size differs */
  streamArtifact(ref: ArtifactRef, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  hasArtifact(ref: ArtifactRef): Promise<boolean>;
  /**
   * Stores an artifact, unless it exists. Replaces a corrupt one, and rewrites an old one, because garbage collection
   * decides by age.
   */
  writeArtifact(
    bytes: Uint8Array,
  ): Promise<{ readonly ref: ArtifactRef; readonly created: boolean }>;

  /** @returns undefined if there is no record, or one in an unknown form */
  readDeployedEngine(signal?: AbortSignal): Promise<DeployedEngine | undefined>;
  writeDeployedEngine(engine: DeployedEngine): Promise<void>;
}
