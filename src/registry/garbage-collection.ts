// Garbage collection: deletes surplus versions, and artifacts that no manifest references.
//
// Collection is safe while publishers run. A publisher rewrites an existing artifact unless it is fresh
// (object-model-store.ts), so artifacts of an upcoming manifest are always young. Collection keeps young objects, and
// checks the age immediately before it deletes. For the interval between check and deletion, a publisher checks its
// artifacts again after it has written its manifest. An artifact is lost only if a publisher does all of that within
// this interval. S3 has no condition against it, because rewritten bytes have the same etag.
// The newest version of a model always stays, so that no version number is reused.

import type { Clock } from "../core/clock.ts";
import { previousVersionsOf } from "./aliases.ts";
import { aliasedVersion, type Aliases, type Manifest } from "./manifest.ts";
import { createModelStore } from "./object-model-store.ts";
import { compareByKey, type ListedObject, type ObjectStore } from "./object-store.ts";
import { storeLayout, parseArtifactKey, parseManifestKey } from "./store-layout.ts";

const CONCURRENCY = 8;

export interface GarbageCollectionOptions {
  /** Number of newest versions to keep per model; undefined keeps all. Versions that an alias names or named also stay. */
  readonly keepVersions?: number | undefined;
  /** Minimum age of deleted objects. */
  readonly olderThanMs: number;
  readonly clock: Clock;
  /** Reports the garbage without deleting it. */
  readonly isDryRun?: boolean;
}

export interface GarbageCollectionResult {
  readonly versions: readonly { readonly model: string; readonly version: number }[];
  readonly artifacts: readonly { readonly sha256: string; readonly bytes: number }[];
  readonly kept: { readonly versions: number; readonly artifacts: number; readonly bytes: number };
}

interface StoredVersion {
  readonly model: string;
  readonly version: number;
  readonly object: ListedObject;
}

/**
 * Deletes garbage. Artifacts of every manifest stay, regardless of its signature.
 * @throws manifest_invalid, aliases_invalid, both before any deletion, because their references are unknown
 */
export async function collectGarbage(
  objects: ObjectStore,
  options: GarbageCollectionOptions,
): Promise<GarbageCollectionResult> {
  const { keepVersions = Number.POSITIVE_INFINITY, olderThanMs, clock, isDryRun = false } = options;
  const store = createModelStore(objects);
  const isOld = ({ modifiedAtMs }: ListedObject) => clock.now() - modifiedAtMs >= olderThanMs;
  const readReferencedVersions = async (model: string) =>
    listReferencedVersions((await store.readAliases(model))?.aliases ?? {});

  /** @returns whether the object is garbage and was deleted */
  async function deleteIfOld({ key }: ListedObject): Promise<boolean> {
    const current = (await objects.list(key)).find((object) => object.key === key);
    if (current === undefined || !isOld(current)) return false;
    if (!isDryRun) await objects.delete(key);
    return true;
  }

  // Artifacts are listed before manifests, so artifacts of later manifests are either unlisted or young.
  const artifacts = await objects.list(storeLayout.artifacts);
  const versions = await listStoredVersions(objects);
  const surplus: StoredVersion[] = [];
  for (const [model, all] of Map.groupBy(versions, (version) => version.model)) {
    const referenced = await readReferencedVersions(model);
    surplus.push(
      ...skipNewest(all, keepVersions).filter(
        ({ version, object }) => !referenced.has(version) && isOld(object),
      ),
    );
  }

  const digests = new Set<string>();
  const keep = async ({ model, version }: StoredVersion) => {
    for (const digest of findDigests(await store.readManifest(model, version))) digests.add(digest);
  };
  await forEachConcurrently(
    versions.filter((version) => !surplus.includes(version)),
    keep,
  );

  // Versions are deleted before their artifacts, so a listed version is always complete.
  const deletedVersions: StoredVersion[] = [];
  for (const candidate of surplus) {
    const referenced = await readReferencedVersions(candidate.model);
    if (!referenced.has(candidate.version) && (await deleteIfOld(candidate.object)))
      deletedVersions.push(candidate);
    else await keep(candidate);
  }
  const deletedArtifacts: ListedObject[] = [];
  await forEachConcurrently(artifacts, async (object) => {
    const sha256 = parseArtifactKey(object.key);
    const isGarbage = sha256 !== undefined && !digests.has(sha256) && isOld(object);
    if (isGarbage && (await deleteIfOld(object))) deletedArtifacts.push(object);
  });
  return {
    versions: deletedVersions.map(({ model, version }) => ({ model, version })),
    artifacts: deletedArtifacts
      .sort(compareByKey)
      .map(({ key, size }) => ({ sha256: parseArtifactKey(key) ?? "", bytes: size })),
    kept: {
      versions: versions.length - deletedVersions.length,
      artifacts: artifacts.length - deletedArtifacts.length,
      bytes: sumBytes(artifacts) - sumBytes(deletedArtifacts),
    },
  };
}

async function listStoredVersions(objects: ObjectStore): Promise<StoredVersion[]> {
  return (await objects.list(storeLayout.models)).flatMap((object) => {
    const parsed = parseManifestKey(object.key);
    return parsed === undefined ? [] : [{ ...parsed, object }];
  });
}

/** Returns the versions without the newest ones, of which at least one stays. */
const skipNewest = (versions: readonly StoredVersion[], count: number): StoredVersion[] =>
  versions.toSorted((a, b) => b.version - a.version).slice(Math.max(1, count));

const listReferencedVersions = (aliases: Aliases): ReadonlySet<number> =>
  new Set(
    Object.values(aliases).flatMap((target) => [
      aliasedVersion(target),
      ...previousVersionsOf(target),
    ]),
  );

/** Finds every text that looks like a digest, so that future manifest fields cannot be missed. */
const findDigests = (manifest: Manifest | undefined): readonly string[] =>
  JSON.stringify(manifest ?? null).match(/[0-9a-f]{64}/g) ?? [];

const sumBytes = (objects: readonly ListedObject[]): number =>
  objects.reduce((sum, { size }) => sum + size, 0);

async function forEachConcurrently<Item>(
  items: readonly Item[],
  action: (item: Item) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < items.length; start += CONCURRENCY)
    await Promise.all(items.slice(start, start + CONCURRENCY).map(action));
}
