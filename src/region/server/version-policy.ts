// Which versions of a model a region loads: Triton's version policy.

/** `latest`: that many of the highest numbers, and what an alias names; `specific`: these and no others; `all`. */
export type VersionPolicy =
  | "all"
  | { readonly latest: number }
  | { readonly specific: readonly number[] };

/** What the store says of a model now. */
export interface PublishedVersions {
  /** Ascending. */
  readonly versions: readonly number[];
  /** That an alias names. */
  readonly aliased: readonly number[];
}

/**
 * What an alias is answered with. `specific` overrules it, with the highest of its versions, as Triton answers a request
 * that names none: whoever moves an alias elsewhere must not be able to take the model away here.
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
 * A version is published before an alias moves to it: if `latest` counted numbers alone, publishing would take away what
 * `stable` names until then. `specific` is a list that the operator has written by hand, and nothing from outside adds to it.
 * @returns why it may not be loaded; undefined if it may
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
      : `this region serves ${listed(policy.specific)} only`;
  if (aliased.includes(version) || latestOf(versions, policy.latest).includes(version))
    return undefined;
  return `this region serves the latest ${policy.latest === 1 ? "version" : `${policy.latest} versions`} only, and those with an alias`;
}

/** The versions that the policy names one by one; what may be loaded beside them is loaded when it is asked for. */
export function listPolicyVersions(
  policy: VersionPolicy,
  { versions }: Pick<PublishedVersions, "versions">,
): readonly number[] {
  if (policy === "all") return [];
  return "specific" in policy ? policy.specific : latestOf(versions, policy.latest);
}

const latestOf = (versions: readonly number[], count: number) => versions.slice(-count);
const listed = (versions: readonly number[]) =>
  `version${versions.length === 1 ? "" : "s"} ${versions.join(", ")}`;
