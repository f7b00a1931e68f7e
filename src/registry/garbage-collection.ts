// Collects garbage: versions that nobody needs any more, and artifacts that no manifest names.
//
// Safe beside a publisher: one that finds its artifact in the store writes it again unless it is fresh (store.ts), so what
// somebody is about to name is young. Nothing young goes, by a look just before it is deleted; for the moment between the
// two, a publisher looks for its artifacts again when its manifest is there. Only one who does all that within this moment
// would lose an artifact, which S3 has no condition to prevent: bytes written again have the same etag.
// The newest version of a model always stays, so that no number is given twice.

import type { Clock } from "../core/clock.ts";
import { previousVersionsOf } from "./aliases.ts";
import { storeLayout, parseArtifactKey, parseManifestKey } from "./store-layout.ts";
import { aliasedVersion, type Aliases, type Manifest } from "./manifest.ts";
import { compareByKey, type ListedObject, type ObjectStore } from "./object-store.ts";
import { createModelStore } from "./object-model-store.ts";

/** At once. */
const CONCURRENCY = 8;

export interface GarbageCollectionOptions {
  /** Versions of each model that stay, the newest ones; undefined: all. Those that an alias names, or has named, stay besides. */
  readonly keepVersions?: number | undefined;
  /** What was written later stays. */
  readonly olderThanMs: number;
  readonly clock: Clock;
  /** Only tells what would go. */
  readonly isDryRun?: boolean;
}

export interface GarbageCollectionResult {
  readonly versions: readonly { readonly model: string; readonly version: number }[];
  readonly artifacts: readonly { readonly sha256: string; readonly bytes: number }[];
  readonly kept: { readonly versions: number; readonly artifacts: number; readonly bytes: number };
}

/** As it was listed. */
interface StoredVersion {
  readonly model: string;
  readonly version: number;
  readonly object: ListedObject;
}

/**
 * Whoever signed a manifest: what it names stays.
 * @throws manifest_invalid, aliases_invalid before anything is deleted: what they name cannot be told
 */
export async function collectGarbage(
  objects: ObjectStore,
  options: GarbageCollectionOptions,
): Promise<GarbageCollectionResult> {
  const { keepVersions = Number.POSITIVE_INFINITY, olderThanMs, clock, isDryRun = false } = options;
  const store = createModelStore(objects);
  const isOld = ({ modifiedAtMs }: ListedObject) => clock.now() - modifiedAtMs >= olderThanMs;
  const namedVersions = async (model: string) =>
    listReferencedVersions((await store.readAliases(model))?.aliases ?? {});

  /** @returns whether it went */
  async function take({ key }: ListedObject): Promise<boolean> {
    const now = (await objects.list(key)).find((one) => one.key === key);
    if (now === undefined || !isOld(now)) return false;
    if (!isDryRun) await objects.delete(key);
    return true;
  }

  const artifacts = await objects.list(storeLayout.artifacts); // before the manifests: what comes later is young
  const versions = (await objects.list(storeLayout.models)).flatMap((object): StoredVersion[] => {
    const found = parseManifestKey(object.key);
    return found === undefined ? [] : [{ ...found, object }];
  });
  const surplus: StoredVersion[] = [];
  for (const [model, all] of Map.groupBy(versions, (one) => one.model)) {
    const named = await namedVersions(model);
    const beyond = all.toSorted((a, b) => b.version - a.version).slice(Math.max(1, keepVersions));
    surplus.push(...beyond.filter(({ version, object }) => !named.has(version) && isOld(object)));
  }

  const digests = new Set<string>();
  const keep = async ({ model, version }: StoredVersion) => {
    for (const digest of findDigests(await store.readManifest(model, version))) digests.add(digest);
  };
  await forEachConcurrently(
    versions.filter((one) => !surplus.includes(one)),
    keep,
  );

  // Versions before their artifacts: one that is there is whole.
  const goneVersions: StoredVersion[] = [];
  for (const one of surplus) {
    if (!(await namedVersions(one.model)).has(one.version) && (await take(one.object)))
      goneVersions.push(one);
    else await keep(one);
  }
  const goneArtifacts: ListedObject[] = [];
  await forEachConcurrently(artifacts, async (object) => {
    const sha256 = parseArtifactKey(object.key);
    if (sha256 !== undefined && !digests.has(sha256) && isOld(object) && (await take(object)))
      goneArtifacts.push(object);
  });
  return {
    versions: goneVersions.map(({ model, version }) => ({ model, version })),
    artifacts: goneArtifacts
      .sort(compareByKey)
      .map(({ key, size }) => ({ sha256: parseArtifactKey(key) ?? "", bytes: size })),
    kept: {
      versions: versions.length - goneVersions.length,
      artifacts: artifacts.length - goneArtifacts.length,
      bytes: sumBytes(artifacts) - sumBytes(goneArtifacts),
    },
  };
}

const listReferencedVersions = (aliases: Aliases): ReadonlySet<number> =>
  new Set(
    Object.values(aliases).flatMap((target) => [
      aliasedVersion(target),
      ...previousVersionsOf(target),
    ]),
  );

/** Whatever looks like a digest: a field that is yet to come cannot be forgotten here. */
const findDigests = (manifest: Manifest | undefined): readonly string[] =>
  JSON.stringify(manifest ?? null).match(/[0-9a-f]{64}/g) ?? [];

const sumBytes = (objects: readonly ListedObject[]): number =>
  objects.reduce((sum, { size }) => sum + size, 0);

async function forEachConcurrently<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < items.length; start += CONCURRENCY)
    await Promise.all(items.slice(start, start + CONCURRENCY).map(work));
}
