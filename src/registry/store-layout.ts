// Object keys of the model store: artifacts by digest, manifests by version number, and aliases next to the manifests.

import { modelNameSchema, versionNumberSchema } from "./manifest.ts";

export const storeLayout = {
  models: "models/",
  artifacts: "blobs/sha256/",
  artifact: (sha256: string) => `blobs/sha256/${sha256}`,
  versions: (model: string) => `models/${model}/versions/`,
  manifest: (model: string, version: number) => `models/${model}/versions/${version}.json`,
  /** Record of the edge engine, which each deployment replaces. */
  deployedEngine: "engines/edge.json",
  aliases: (model: string) => `models/${model}/aliases.json`,
} as const;

/** Parses the digest from an artifact's key; undefined for any other key. */
export const parseArtifactKey = (key: string): string | undefined =>
  /^blobs\/sha256\/([0-9a-f]{64})$/.exec(key)?.[1];

/** Parses model and version from a manifest's key; undefined for any other key. */
export function parseManifestKey(key: string): { model: string; version: number } | undefined {
  const match = /^models\/([^/]+)\/versions\/([1-9][0-9]{0,9})\.json$/.exec(key);
  const model = modelNameSchema.safeParse(match?.[1]);
  const version = versionNumberSchema.safeParse(Number(match?.[2]));
  return model.success && version.success
    ? { model: model.data, version: version.data }
    : undefined;
}
