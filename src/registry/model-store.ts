// The ModelStore port: immutable artifacts and manifests, movable aliases. `createModelStore` (store.ts) implements it
// over any ObjectStore driver.

import type { DeployedEngine } from "./deployed-engine.ts";
import type { Aliases, ArtifactRef, Manifest } from "./manifest.ts";

export interface StoredAliases {
  readonly aliases: Aliases;
  readonly etag: string;
}

export interface SignedManifest {
  readonly manifest: Manifest;
  /** Ids of the keys that it says it was signed with. */
  readonly signedBy: readonly string[];
  /** Whether one of them is trusted, and its signature right; false where the store was given no keys to trust. */
  readonly isVerified: boolean;
}

/**
 * Every method throws model_store_unavailable when the store cannot be reached or answers with an error of its own.
 * `signal` cancels the request.
 */
export interface ModelStore {
  /** Names of all models that have at least one version, sorted. */
  listModels(signal?: AbortSignal): Promise<string[]>;
  /** Version numbers, ascending; empty for an unknown model. */
  listVersions(model: string, signal?: AbortSignal): Promise<number[]>;

  /** @returns undefined where the model has no aliases yet. @throws aliases_invalid */
  readAliases(model: string, signal?: AbortSignal): Promise<StoredAliases | undefined>;
  /**
   * Compare-and-set.
   * @param expectedEtag of the aliases that the change starts from; undefined where there were none.
   * @throws alias_conflict if someone else changed them meanwhile.
   */
  writeAliases(
    model: string,
    aliases: Aliases,
    expectedEtag: string | undefined,
  ): Promise<StoredAliases>;

  /** @returns undefined for an unknown version. @throws manifest_untrusted before anything of it is parsed; manifest_invalid */
  readManifest(model: string, version: number, signal?: AbortSignal): Promise<Manifest | undefined>;
  /** The same, and who signed it. */
  readSignedManifest(
    model: string,
    version: number,
    signal?: AbortSignal,
  ): Promise<SignedManifest | undefined>;
  /** Writes a new version; the same content again changes nothing (`created` is false). @throws version_exists, would_not_be_trusted */
  writeManifest(manifest: Manifest): Promise<{ readonly created: boolean }>;

  /** The artifact's bytes, verified. @throws artifact_corrupt if it is missing, or its size or SHA-256 differs. */
  readArtifact(ref: ArtifactRef, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  /** The artifact's bytes as they arrive, not verified: the caller does that. @throws artifact_corrupt if it is missing, or its size differs */
  streamArtifact(ref: ArtifactRef, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  hasArtifact(ref: ArtifactRef): Promise<boolean>;
  /** Stores the bytes unless they are there; damaged ones in their place are replaced, and old ones written again: garbage is told by its age. */
  writeArtifact(
    bytes: Uint8Array,
  ): Promise<{ readonly ref: ArtifactRef; readonly created: boolean }>;

  /** @returns undefined where none was noted, or one in a form that this version does not know. */
  readDeployedEngine(signal?: AbortSignal): Promise<DeployedEngine | undefined>;
  writeDeployedEngine(engine: DeployedEngine): Promise<void>;
}
