// Lists the files that a manifest or a model project references.

import type { ServingConfig } from "../serving-config.ts";
import type { ArtifactRef } from "./common-schemas.ts";

interface TierFileReferences<File> {
  readonly graph: File;
  readonly fp16Graph?: File | undefined;
  readonly preprocessor?: { readonly kind: string; readonly artifact?: File };
  readonly resumes?: { readonly graph: File } | undefined;
  readonly serving?: ServingConfig<File> | undefined;
}

interface FileReferences<File, Tier extends TierFileReferences<File> = TierFileReferences<File>> {
  readonly labels?: File | undefined;
  readonly report?: File | undefined;
  readonly tiers: readonly Tier[];
}

interface StoredTier extends TierFileReferences<ArtifactRef> {
  readonly snapshot?: { readonly artifact: ArtifactRef } | undefined;
}

/** Lists every artifact of a manifest, without duplicates. */
export function listArtifacts(manifest: FileReferences<ArtifactRef, StoredTier>): ArtifactRef[] {
  const snapshots = manifest.tiers.flatMap(({ snapshot }) =>
    snapshot === undefined ? [] : [snapshot.artifact],
  );
  return [
    ...new Map(
      [...listFiles<ArtifactRef>(manifest), ...snapshots].map((ref) => [ref.sha256, ref]),
    ).values(),
  ];
}

/** Lists the file references of a manifest or a project, except snapshots. */
export function listFiles<File>({ labels, report, tiers }: FileReferences<File>): File[] {
  const tierFiles = tiers.flatMap(({ graph, fp16Graph, preprocessor, resumes, serving }) => [
    graph,
    fp16Graph,
    preprocessor?.artifact,
    resumes?.graph,
    ...listWarmupFiles(serving),
  ]);
  return [labels, ...tierFiles, report].filter((file) => file !== undefined);
}

function listWarmupFiles<File>(serving: ServingConfig<File> | undefined): File[] {
  const inputs = (serving?.warmup ?? []).flatMap((sample) => Object.values(sample.inputs ?? {}));
  return inputs.flatMap(({ data }) => (typeof data === "object" ? [data.file] : []));
}
