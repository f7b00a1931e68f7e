// Events of a region's models for log and metrics, and the keys that name versions in the repository's maps.

import type { ProviderEvent } from "./provider-fallback.ts";
import type { AliasOverride } from "./version-resolver.ts";

export interface VersionRef {
  readonly model: string;
  readonly version: number;
}

export type RepositoryEvent =
  | ({
      readonly event: "model_loaded";
      readonly durationMs: number;
      readonly bytes: number;
    } & VersionRef)
  | ({ readonly event: "model_unloaded" } & VersionRef)
  | ({ readonly event: "model_evicted"; readonly bytes: number } & VersionRef)
  | {
      readonly event: "model_failed";
      readonly model: string;
      readonly version: number | undefined;
      readonly error: unknown;
    }
  /** The model's existence is unknown; its name is the requested one. */
  | {
      readonly event: "store_unavailable";
      readonly model?: string;
      readonly version?: number | undefined;
      readonly error: unknown;
    }
  | (ProviderEvent & VersionRef & { readonly tier: string })
  /** The operator configured a tier that this version does not have. */
  | ({ readonly event: "tier_unknown"; readonly tier: string } & VersionRef)
  | ({ readonly event: "alias_overruled" } & AliasOverride);

/** Returns "model@version" or "model@alias". */
export const repositoryKey = (model: string, versionOrAlias: number | string) =>
  `${model}@${versionOrAlias}`;
export const isKeyOfModel = (model: string, key: string) => key.startsWith(`${model}@`);

/** @param key "model@version" */
export function parseVersionKey(key: string): VersionRef {
  const at = key.lastIndexOf("@");
  return { model: key.slice(0, at), version: Number(key.slice(at + 1)) };
}
