// Publishes a model: first its artifacts, then the manifest, then the alias. Publishing is idempotent, and safe while
// other publishers and garbage collection run.

import { EdgeTierError } from "../core/errors.ts";
import { retargetAlias } from "./aliases.ts";
import { canonicalJson } from "./canonical-json.ts";
import {
  aliasedVersion,
  listFiles,
  manifestSchema,
  type ArtifactRef,
  type Manifest,
  type ModelProject,
  type SnapshotRef,
} from "./manifest.ts";
import { DEFAULT_ALIAS } from "./model-ref.ts";
import type { ModelStore } from "./model-store.ts";
import { publishingErrors } from "./publishing-errors.ts";
import { mapServingFiles } from "./serving-config.ts";

/** Attempts in total, if other publishers win the race. */
const MAX_ATTEMPTS = 8;
/** Key of the publishing record in a manifest's provenance. */
const PUBLISH_PROVENANCE_KEY = "publishing";

/** A model project with the bytes of its files, keyed by their paths in the project. */
export interface PublishSource {
  readonly project: ModelProject;
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Snapshots of edge tiers by tier id. A tier without one is opened from its model. */
  readonly snapshots?: ReadonlyMap<string, TierSnapshot>;
}

/** A snapshot that is not in the store yet. */
export interface TierSnapshot extends Omit<SnapshotRef, "artifact"> {
  readonly bytes: Uint8Array;
}

/** Record of how a version was published. It has no paths and hosts, because everyone with the model can read it. */
export interface PublishProvenance {
  readonly command: string;
  /** Digest and file count of the project's folder. */
  readonly source: { readonly sha256: string; readonly files: number };
  /** Versions of the packages involved, by package name. */
  readonly versions: Readonly<Record<string, string>>;
  readonly git?: { readonly commit: string; readonly isModified: boolean };
}

export type PublishProgress =
  | {
      readonly kind: "artifact";
      readonly path: string;
      readonly ref: ArtifactRef;
      readonly created: boolean;
    }
  | { readonly kind: "manifest"; readonly version: number; readonly created: boolean }
  | { readonly kind: "alias"; readonly alias: string; readonly version: number };

export interface PublishResult {
  readonly model: string;
  /** Version with this content. */
  readonly version: number;
  /** `unchanged` if a version with the same content existed. */
  readonly outcome: "published" | "unchanged";
  readonly alias: string;
  /** Current version of the alias: this version, or a later one from another publisher. */
  readonly aliasVersion: number;
  readonly aliasMoved: boolean;
  /** Bytes of the artifacts that were new to the store. */
  readonly uploadedBytes: number;
}

/**
 * Publishes a model. If the content equals the newest or the aliased version, no version is created.
 * @param options.alias alias that moves to the version; `stable` by default
 * @throws model_store_unavailable; invalid_project if a file is missing from `source.files`; version_exists or
 * alias_conflict if other publishers win every attempt
 */
export async function publishModel(
  store: ModelStore,
  source: PublishSource,
  options: {
    readonly alias?: string;
    readonly publishing?: PublishProvenance;
    readonly onProgress?: (event: PublishProgress) => void;
  } = {},
): Promise<PublishResult> {
  const { alias = DEFAULT_ALIAS, publishing, onProgress = () => {} } = options;
  const { model } = source.project;
  const files = collectFiles(source);
  const { refs, uploadedBytes } = await writeArtifacts(store, files, onProgress);
  const createManifest = (version: number): Manifest =>
    toManifest(source, refs, version, publishing);

  const { version, created } = await retryOnConflict("version_exists", async () => {
    const existing = await findSameContent(store, createManifest(1), alias);
    if (existing !== undefined) return { version: existing, created: false };
    const next = ((await store.listVersions(model)).at(-1) ?? 0) + 1;
    return { version: next, ...(await store.writeManifest(createManifest(next))) };
  });
  onProgress({ kind: "manifest", version, created });
  await rewriteMissingArtifacts(store, files, refs);

  const moved = await retryOnConflict("alias_conflict", () =>
    advanceAlias(store, model, alias, version),
  );
  if (moved.aliasMoved) onProgress({ kind: "alias", alias, version });
  return {
    model,
    version,
    outcome: created ? "published" : "unchanged",
    alias,
    ...moved,
    uploadedBytes,
  };
}

/** Lists the paths of all files that a project references, without duplicates. */
export function listProjectFiles(project: ModelProject): string[] {
  return [...new Set(listFiles<string>(project))];
}

/** Collects files and snapshots by path. @throws invalid_project if a file is missing */
function collectFiles({
  project,
  files,
  snapshots = new Map(),
}: PublishSource): Map<string, Uint8Array> {
  const all = new Map<string, Uint8Array>();
  for (const path of listProjectFiles(project)) {
    const bytes = files.get(path);
    if (bytes === undefined)
      throw publishingErrors.invalidProject(project.model, [`the file ${path} is missing`]);
    all.set(path, bytes);
  }
  for (const [tier, { bytes }] of snapshots) all.set(snapshotLabel(tier), bytes);
  return all;
}

async function writeArtifacts(
  store: ModelStore,
  files: ReadonlyMap<string, Uint8Array>,
  onProgress: (event: PublishProgress) => void,
) {
  const refs = new Map<string, ArtifactRef>();
  let uploadedBytes = 0;
  for (const [path, bytes] of files) {
    const { ref, created } = await store.writeArtifact(bytes);
    refs.set(path, ref);
    if (created) uploadedBytes += ref.size;
    onProgress({ kind: "artifact", path, ref, created });
  }
  return { refs, uploadedBytes };
}

/** Rewrites artifacts that garbage collection deleted before the manifest referenced them. */
async function rewriteMissingArtifacts(
  store: ModelStore,
  files: ReadonlyMap<string, Uint8Array>,
  refs: ReadonlyMap<string, ArtifactRef>,
): Promise<void> {
  for (const [path, ref] of refs) {
    const bytes = files.get(path);
    if (bytes !== undefined && !(await store.hasArtifact(ref))) await store.writeArtifact(bytes);
  }
}

/** Label of a snapshot in progress events. Its spaces and parentheses keep it distinct from paths. */
const snapshotLabel = (tier: string) => `(snapshot of ${tier})`;

function toManifest(
  { project, snapshots = new Map() }: PublishSource,
  refs: ReadonlyMap<string, ArtifactRef>,
  version: number,
  publishing: PublishProvenance | undefined,
): Manifest {
  const createSnapshotField = (tier: string) => {
    const snapshot = snapshots.get(tier);
    if (snapshot === undefined) return {};
    const { bytes: _bytes, ...rest } = snapshot;
    return { snapshot: { ...rest, artifact: refs.get(snapshotLabel(tier)) } };
  };
  const ref = (path: string | undefined) => (path === undefined ? undefined : refs.get(path));
  const tiers = project.tiers.map((tier) => ({
    ...tier,
    graph: ref(tier.graph),
    ...(tier.fp16Graph === undefined ? {} : { fp16Graph: ref(tier.fp16Graph) }),
    ...("preprocessor" in tier && "artifact" in tier.preprocessor
      ? { preprocessor: { ...tier.preprocessor, artifact: ref(tier.preprocessor.artifact) } }
      : {}),
    ...("resumes" in tier && tier.resumes !== undefined
      ? { resumes: { ...tier.resumes, graph: ref(tier.resumes.graph) } }
      : {}),
    ...(tier.serving === undefined ? {} : { serving: mapServingFiles(tier.serving, ref) }),
    ...createSnapshotField(tier.id),
  }));
  // The project's own provenance takes precedence.
  const provenance = {
    ...(publishing === undefined ? {} : { [PUBLISH_PROVENANCE_KEY]: publishing }),
    ...project.provenance,
  };
  return manifestSchema.parse({
    ...project,
    provenance,
    ...(project.labels === undefined ? {} : { labels: ref(project.labels) }),
    ...("report" in project && project.report !== undefined ? { report: ref(project.report) } : {}),
    tiers,
    version,
  });
}

/** Finds this content in the aliased version, or else in the newest version. */
async function findSameContent(
  store: ModelStore,
  manifest: Manifest,
  alias: string,
): Promise<number | undefined> {
  const { model } = manifest;
  const target = (await store.readAliases(model))?.aliases[alias];
  const newest = (await store.listVersions(model)).at(-1);
  const content = canonicalContent(manifest);
  for (const version of new Set([
    target === undefined ? undefined : aliasedVersion(target),
    newest,
  ])) {
    const existing =
      version === undefined ? undefined : await tryReadManifest(store, model, version);
    if (existing !== undefined && canonicalContent(existing) === content) return version;
  }
  return undefined;
}

/** Returns the manifest's content without its version number and its publishing record. */
function canonicalContent({
  provenance: { [PUBLISH_PROVENANCE_KEY]: _publishing, ...provenance },
  ...manifest
}: Manifest): string {
  return canonicalJson({ ...manifest, provenance, version: 0 });
}

/** Reads a manifest, or undefined if it is corrupt or untrusted, because it must not block the next version. */
async function tryReadManifest(
  store: ModelStore,
  model: string,
  version: number,
): Promise<Manifest | undefined> {
  try {
    return await store.readManifest(model, version);
  } catch (error) {
    if (
      error instanceof EdgeTierError &&
      ["manifest_invalid", "manifest_untrusted"].includes(error.code)
    )
      return undefined;
    throw error;
  }
}

/** Moves an alias forward only: an alias at a later version was moved by a later publisher. */
async function advanceAlias(store: ModelStore, model: string, alias: string, version: number) {
  const stored = await store.readAliases(model);
  const current = stored?.aliases[alias];
  const aliasVersion = current === undefined ? 0 : aliasedVersion(current);
  if (aliasVersion >= version) return { aliasVersion, aliasMoved: false };
  await store.writeAliases(
    model,
    { ...stored?.aliases, [alias]: retargetAlias(version, current) },
    stored?.etag,
  );
  return { aliasVersion: version, aliasMoved: true };
}

/** Retries `action` while it fails with `code`. The action must read its preconditions again each time. */
async function retryOnConflict<Result>(
  code: string,
  action: () => Promise<Result>,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await action();
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !(error instanceof EdgeTierError) || error.code !== code)
        throw error;
    }
  }
}
