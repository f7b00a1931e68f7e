// Whether an engine can go on from a snapshot, told without reading it.

import { findMissingFunctions } from "./function-set.ts";

/** What is needed to tell; `source`: SHA-256 of the full engine. */
export type EngineIdentity = { readonly source: string } & (
  | { readonly kind: "full" }
  | { readonly kind: "cut"; readonly functions: string }
);

export interface SnapshotIdentity {
  /** SHA-256 of the full engine that it was made with. */
  readonly engine: string;
  /** That running the graph enters. */
  readonly functions: string;
}

/** @returns why not; undefined where it can */
export function findIncompatibility(
  snapshot: SnapshotIdentity | undefined,
  engine: EngineIdentity,
): string | undefined {
  if (snapshot === undefined) return "the version has no snapshot";
  if (snapshot.engine !== engine.source)
    return `its snapshot was made for engine ${snapshot.engine.slice(0, 12)}, deployed is ${engine.source.slice(0, 12)}`;
  if (engine.kind === "full") return undefined;
  const missing = findMissingFunctions(snapshot.functions, engine.functions);
  const some = missing.slice(0, 5).join(", ") + (missing.length > 5 ? ", …" : "");
  return missing.length === 0
    ? undefined
    : `the deployed engine was cut of ${missing.length} of its functions (${some})`;
}
