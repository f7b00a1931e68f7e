// Checks whether an engine can restore a snapshot, without reading the snapshot.

import { findMissingFunctions } from "./function-set.ts";

/** Identity of an engine; `source` is the SHA-256 of the full engine. */
export type EngineIdentity = { readonly source: string } & (
  | { readonly kind: "full" }
  | { readonly kind: "cut"; readonly functions: string }
);

export interface SnapshotIdentity {
  /** SHA-256 of the full engine that made the snapshot. */
  readonly engine: string;
  /** Set of functions that a run of the graph calls. */
  readonly functions: string;
}

/** @returns the reason; undefined if the engine can restore the snapshot */
export function findIncompatibility(
  snapshot: SnapshotIdentity | undefined,
  engine: EngineIdentity,
): string | undefined {
  if (snapshot === undefined) return "the version has no snapshot";
  if (snapshot.engine !== engine.source)
    return `its snapshot is for engine ${snapshot.engine.slice(0, 12)}, but the deployed engine is ${engine.source.slice(0, 12)}`;
  if (engine.kind === "full") return undefined;
  const missing = findMissingFunctions(snapshot.functions, engine.functions);
  const examples = missing.slice(0, 5).join(", ") + (missing.length > 5 ? ", …" : "");
  return missing.length === 0
    ? undefined
    : `the deployed engine lacks ${missing.length} of its functions (${examples})`;
}
