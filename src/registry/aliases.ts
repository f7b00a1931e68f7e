// Aliases that move: what they name, the share of requests that they take, and what they named before.

import { publishingErrors } from "./publishing-errors.ts";
import { registryErrors } from "./errors.ts";
import { aliasedVersion, type Aliases, type AliasTarget } from "./manifest.ts";
import { DEFAULT_ALIAS, type ModelRef } from "./model-ref.ts";
import type { ModelStore } from "./model-store.ts";

/** Versions that an alias remembers. */
const MAX_PREVIOUS_VERSIONS = 5;

export interface AliasState {
  readonly version: number;
  readonly weight: number | null;
  /** The last one first. */
  readonly previous: readonly number[];
}

export interface AliasChange {
  readonly model: string;
  readonly alias: string;
  readonly before: AliasState | null;
  readonly after: AliasState;
}

export const weightOf = (target: AliasTarget | undefined): number | undefined =>
  typeof target === "object" ? target.weight : undefined;

export const previousVersionsOf = (target: AliasTarget | undefined): readonly number[] =>
  typeof target === "object" ? (target.previous ?? []) : [];

/** Of the aliases that take requests from the default one: those with a weight, in the order of their names. */
export function listWeightedAliases(
  aliases: Aliases,
): readonly { readonly alias: string; readonly version: number; readonly weight: number }[] {
  const shares = Object.entries(aliases).map(([alias, target]) => ({
    alias,
    version: aliasedVersion(target),
    weight: weightOf(target) ?? 0,
  }));
  return shares
    .filter(({ alias, weight }) => alias !== DEFAULT_ALIAS && weight > 0)
    .sort((a, b) => (a.alias < b.alias ? -1 : 1));
}

/** @param weight stays as it is where undefined: it belongs to the alias, not to the version */
export function retargetAlias(
  version: number,
  before: AliasTarget | undefined,
  weight = weightOf(before),
): AliasTarget {
  const named = before === undefined ? [] : [aliasedVersion(before), ...previousVersionsOf(before)];
  return createAliasTarget(
    version,
    weight,
    named.filter((one) => one !== version).slice(0, MAX_PREVIOUS_VERSIONS),
  );
}

/** A number where there is no more to say. */
function createAliasTarget(
  version: number,
  weight: number | undefined,
  previous: readonly number[],
): AliasTarget {
  if (weight === undefined && previous.length === 0) return version;
  return {
    version,
    ...(weight === undefined ? {} : { weight }),
    ...(previous.length === 0 ? {} : { previous: [...previous] }),
  };
}

/**
 * Points an alias at a version that can be read.
 * @param to another alias stands for the version that it names now
 * @param options.weight the alias's from now on; as it is where undefined
 * @throws version_not_found, alias_not_found, model_not_found; manifest_untrusted, manifest_invalid; alias_conflict
 */
export async function promoteAlias(
  store: ModelStore,
  model: string,
  to: ModelRef["target"],
  { alias, weight }: { readonly alias: string; readonly weight?: number | undefined },
): Promise<AliasChange> {
  return await moveAlias(store, model, alias, (before, aliases) =>
    retargetAlias(
      to.kind === "version" ? to.version : resolveAlias(model, to.alias, aliases),
      before,
      weight,
    ),
  );
}

/** Points an alias at what it named before. @throws nothing_before, and as promote */
export async function rollbackAlias(
  store: ModelStore,
  model: string,
  alias: string,
): Promise<AliasChange> {
  return await moveAlias(store, model, alias, (before) => {
    const [version, ...earlier] = previousVersionsOf(before);
    if (version === undefined) throw publishingErrors.nothingBefore(model, alias);
    return createAliasTarget(version, weightOf(before), earlier); // what it leaves is not kept: rolling back again goes on
  });
}

async function moveAlias(
  store: ModelStore,
  model: string,
  alias: string,
  move: (before: AliasTarget | undefined, aliases: Aliases) => AliasTarget,
): Promise<AliasChange> {
  const read = await store.readAliases(model);
  if (read === undefined && (await store.listVersions(model)).length === 0)
    throw registryErrors.modelNotFound(model);
  const aliases = read?.aliases ?? {};
  const before = ownAlias(aliases, alias);
  const after = move(before, aliases);
  if ((await store.readManifest(model, aliasedVersion(after))) === undefined)
    throw registryErrors.versionNotFound(model, aliasedVersion(after));
  await store.writeAliases(model, { ...aliases, [alias]: after }, read?.etag);
  return {
    model,
    alias,
    before: before === undefined ? null : toAliasState(before),
    after: toAliasState(after),
  };
}

function resolveAlias(model: string, alias: string, aliases: Aliases): number {
  const found = ownAlias(aliases, alias);
  if (found === undefined) throw registryErrors.aliasNotFound(model, alias);
  return aliasedVersion(found);
}

const ownAlias = (aliases: Aliases, alias: string): AliasTarget | undefined =>
  Object.hasOwn(aliases, alias) ? aliases[alias] : undefined;

const toAliasState = (one: AliasTarget): AliasState => ({
  version: aliasedVersion(one),
  weight: weightOf(one) ?? null,
  previous: previousVersionsOf(one),
});
