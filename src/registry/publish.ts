// Publishes a model: artifacts first, the manifest last, then the alias. Safe to repeat, and safe beside other publishers and
// the collection of garbage.

import { publishingErrors } from "./publishing-errors.ts";
import { EdgeTierError } from "../core/errors.ts";
import { canonicalJson } from "./canonical-json.ts";
import { retargetAlias } from "./aliases.ts";
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
import { mapServingFiles } from "./serving-config.ts";

/** Fresh attempts after losing against another publisher. */
const MAX_ATTEMPTS = 8;
/** Where a manifest's provenance tells how it was published. */
const PUBLISH_PROVENANCE_KEY = "publishing";

/** A model project and the bytes of every file it names, by the path that names it. */
export interface PublishSource {
  readonly project: ModelProject;
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Snapshots of edge tiers, by the tier's id; a tier without one is opened from its model. */
  readonly snapshots?: ReadonlyMap<string, TierSnapshot>;
}

/** A snapshot before it is in the store. */
export interface TierSnapshot extends Omit<SnapshotRef, "artifact"> {
  readonly bytes: Uint8Array;
}

/** No path and no host: a manifest is read by anyone who has the model. */
export interface PublishProvenance {
  readonly command: string;
  /** Of the project's folder. */
  readonly source: { readonly sha256: string; readonly files: number };
  /** Of the packages that had a part in it, by their names. */
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
  /** The version that holds this content. */
  readonly version: number;
  /** `unchanged`: a version with the same content was there. */
  readonly outcome: "published" | "unchanged";
  readonly alias: string;
  /** What the alias stands for now: this version, or a later one that someone else published meanwhile. */
  readonly aliasVersion: number;
  readonly aliasMoved: boolean;
  /** Of the artifacts that the store did not have. */
  readonly uploadedBytes: number;
}

/**
 * Where the content equals the newest or the aliased version, nothing new is made.
 * @param options.alias to move to the version; `stable` by default.
 * @throws model_store_unavailable; invalid_project if a file is missing from `source.files`; version_exists or
 * alias_conflict after losing against other publishers again and again.
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
  const manifestOf = (version: number): Manifest => toManifest(source, refs, version, publishing);

  const { version, created } = await retryOnConflict("version_exists", async () => {
    const existing = await findSameContent(store, manifestOf(1), alias);
    if (existing !== undefined) return { version: existing, created: false };
    const next = ((await store.listVersions(model)).at(-1) ?? 0) + 1;
    return { version: next, ...(await store.writeManifest(manifestOf(next))) };
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

/** The paths of every file that a project names, without repeats. */
export function listProjectFiles(project: ModelProject): string[] {
  return [...new Set(listFiles<string>(project))];
}

/** By the path that names it. @throws invalid_project if one is missing */
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

/** Artifacts that were there already may have been taken for garbage before the manifest named them. */
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

/** As progress shows it; no path has blanks like these. */
const snapshotLabel = (tier: string) => `(snapshot of ${tier})`;

function toManifest(
  { project, snapshots = new Map() }: PublishSource,
  refs: ReadonlyMap<string, ArtifactRef>,
  version: number,
  publishing: PublishProvenance | undefined,
): Manifest {
  const snapshotOf = (tier: string) => {
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
    ...snapshotOf(tier.id),
  }));
  const provenance = {
    ...(publishing === undefined ? {} : { [PUBLISH_PROVENANCE_KEY]: publishing }),
    ...project.provenance,
  }; // what the project says goes first
  return manifestSchema.parse({
    ...project,
    provenance,
    ...(project.labels === undefined ? {} : { labels: ref(project.labels) }),
    ...("report" in project && project.report !== undefined ? { report: ref(project.report) } : {}),
    tiers,
    version,
  });
}

/** The aliased or the newest version, whichever has this content first. */
async function findSameContent(
  store: ModelStore,
  manifest: Manifest,
  alias: string,
): Promise<number | undefined> {
  const { model } = manifest;
  const target = (await store.readAliases(model))?.aliases[alias];
  const newest = (await store.listVersions(model)).at(-1);
  const wanted = canonicalContent(manifest);
  for (const version of new Set([
    target === undefined ? undefined : aliasedVersion(target),
    newest,
  ])) {
    const existing =
      version === undefined ? undefined : await tryReadManifest(store, model, version);
    if (existing !== undefined && canonicalContent(existing) === wanted) return version;
  }
  return undefined;
}

/** Neither the number nor how it was published counts. */
function canonicalContent({
  provenance: { [PUBLISH_PROVENANCE_KEY]: _publishing, ...provenance },
  ...manifest
}: Manifest): string {
  return canonicalJson({ ...manifest, provenance, version: 0 });
}

/** A manifest that is damaged, or signed by others, must not keep anyone from publishing the next version. */
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

/** Never back: an alias beyond this version was moved by someone who published later. */
async function advanceAlias(store: ModelStore, model: string, alias: string, version: number) {
  const read = await store.readAliases(model);
  const current = read?.aliases[alias];
  const aliasVersion = current === undefined ? 0 : aliasedVersion(current);
  if (aliasVersion >= version) return { aliasVersion, aliasMoved: false };
  await store.writeAliases(
    model,
    { ...read?.aliases, [alias]: retargetAlias(version, current) },
    read?.etag,
  );
  return { aliasVersion: version, aliasMoved: true };
}

/** Runs `action`, which reads afresh what it depends on, again while it loses with `code`. */
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
