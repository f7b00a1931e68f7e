// Version policy as in Triton: selects which versions of a model a region loads.

/** `latest`: the highest version numbers and every aliased version; `specific`: only the listed versions; `all`: no limit. */
export type VersionPolicy =
  | "all"
  | { readonly latest: number }
  | { readonly specific: readonly number[] };

/** Versions and aliases of a model in the store. */
export interface PublishedVersions {
  /** In ascending order. */
  readonly versions: readonly number[];
  /** Versions that an alias names. */
  readonly aliased: readonly number[];
}

/**
 * Returns the version that an alias resolves to. `specific` overrides the alias with its highest published version, as Triton
 * does for requests without a version. Moving an alias elsewhere must not make the model unavailable here.
 */
export function resolveServedVersion(
  policy: VersionPolicy,
  target: number,
  { versions }: Pick<PublishedVersions, "versions">,
): number {
  if (policy === "all" || "latest" in policy || policy.specific.includes(target)) return target;
  return versions.findLast((version) => policy.specific.includes(version)) ?? target;
}

/**
 * Checks whether the policy admits a version. A version is published before an alias moves to it; if `latest` counted numbers
 * alone, publishing would make the version behind `stable` unavailable. `specific` is the operator's own list, and nothing
 * else extends it.
 * @returns the reason of a rejection; undefined if the version may be loaded
 */
export function policyRejection(
  policy: VersionPolicy,
  version: number,
  { versions, aliased }: PublishedVersions,
): string | undefined {
  if (policy === "all") return undefined;
  if ("specific" in policy)
    return policy.specific.includes(version)
      ? undefined
      : `this region serves ${formatVersions(policy.specific)} only`;
  if (aliased.includes(version) || latestOf(versions, policy.latest).includes(version))
    return undefined;
  return `this region serves the latest ${policy.latest === 1 ? "version" : `${policy.latest} versions`} only, and those with an alias`;
}

/** Returns the versions that the policy names explicitly; other admitted versions are loaded on request. */
export function listPolicyVersions(
  policy: VersionPolicy,
  { versions }: Pick<PublishedVersions, "versions">,
): readonly number[] {
  if (policy === "all") return [];
  return "specific" in policy ? policy.specific : latestOf(versions, policy.latest);
}

const latestOf = (versions: readonly number[], count: number) => versions.slice(-count);
const formatVersions = (versions: readonly number[]) =>
  `version${versions.length === 1 ? "" : "s"} ${versions.join(", ")}`;
