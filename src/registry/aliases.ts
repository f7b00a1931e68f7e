// Moves aliases: promotion, rollback, weights, and the versions that an alias named before.

import { registryErrors } from "./errors.ts";
import { aliasedVersion, type Aliases, type AliasTarget } from "./manifest.ts";
import { DEFAULT_ALIAS, type ModelRef } from "./model-ref.ts";
import type { ModelStore } from "./model-store.ts";
import { publishingErrors } from "./publishing-errors.ts";

const MAX_PREVIOUS_VERSIONS = 5;

export interface AliasState {
  readonly version: number;
  readonly weight: number | null;
  /** Earlier versions, latest first. */
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

/** Lists the aliases that take a share of the default alias's requests, sorted by name. */
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

/** @param weight new weight; by default the alias keeps its weight, which belongs to the alias and not to the version */
export function retargetAlias(
  version: number,
  before: AliasTarget | undefined,
  weight = weightOf(before),
): AliasTarget {
  const previous =
    before === undefined ? [] : [aliasedVersion(before), ...previousVersionsOf(before)];
  return createAliasTarget(
    version,
    weight,
    previous.filter((earlier) => earlier !== version).slice(0, MAX_PREVIOUS_VERSIONS),
  );
}

/** Returns a plain version number if the alias has no weight and no previous versions. */
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
 * Points an alias at a readable version.
 * @param to a version, or another alias, which stands for its current version
 * @param options.weight new weight of the alias; unchanged by default
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

/** Points an alias at its previous version. @throws nothing_before, and the codes of `promoteAlias` */
export async function rollbackAlias(
  store: ModelStore,
  model: string,
  alias: string,
): Promise<AliasChange> {
  return await moveAlias(store, model, alias, (before) => {
    const [version, ...earlier] = previousVersionsOf(before);
    if (version === undefined) throw publishingErrors.nothingBefore(model, alias);
    // The current version is not remembered, so a second rollback goes further back.
    return createAliasTarget(version, weightOf(before), earlier);
  });
}

async function moveAlias(
  store: ModelStore,
  model: string,
  alias: string,
  move: (before: AliasTarget | undefined, aliases: Aliases) => AliasTarget,
): Promise<AliasChange> {
  const stored = await store.readAliases(model);
  if (stored === undefined && (await store.listVersions(model)).length === 0)
    throw registryErrors.modelNotFound(model);
  const aliases = stored?.aliases ?? {};
  const before = ownAlias(aliases, alias);
  const after = move(before, aliases);
  if ((await store.readManifest(model, aliasedVersion(after))) === undefined)
    throw registryErrors.versionNotFound(model, aliasedVersion(after));
  await store.writeAliases(model, { ...aliases, [alias]: after }, stored?.etag);
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

const toAliasState = (target: AliasTarget): AliasState => ({
  version: aliasedVersion(target),
  weight: weightOf(target) ?? null,
  previous: previousVersionsOf(target),
});
