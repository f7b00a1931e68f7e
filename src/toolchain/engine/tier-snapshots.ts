// Tier snapshots: attaches to a model project the snapshots of its edge tiers, for publishing.

import type { PublishSource, TierSnapshot } from "../../registry/publish.ts";
import { PAGE_BYTES } from "../../runtime/wasm/engine.ts";
import { encodeFunctionSet } from "../../runtime/wasm/function-set.ts";
import { collectEdgeGraphs } from "../edge-graphs.ts";
import { compressSnapshot, createSnapshots, type SnapshotOptions } from "./graph-snapshots.ts";

export interface ProjectSnapshots {
  /** The project with the snapshots of its edge tiers. */
  readonly source: PublishSource;
  /** Edge tiers without a snapshot, and why. */
  readonly skippedTiers: readonly { readonly tier: string; readonly reason: string }[];
}

/** @throws invalid_project, component_failed */
export async function attachSnapshots(
  source: PublishSource,
  options: SnapshotOptions,
): Promise<ProjectSnapshots> {
  const graphs = collectEdgeGraphs(source);
  const results = await createSnapshots(graphs, options);
  const snapshots = new Map<string, TierSnapshot>();
  const skippedTiers: { tier: string; reason: string }[] = [];
  for (const { tier, sha256 } of graphs) {
    const snapshot = results.get(sha256);
    if (snapshot === undefined || "reason" in snapshot)
      skippedTiers.push({ tier, reason: snapshot?.reason ?? "no snapshot was taken" });
    else {
      const { bytes, head } = await compressSnapshot(snapshot, options.engineSha256, sha256);
      snapshots.set(tier, {
        bytes,
        head,
        engine: options.engineSha256,
        functions: encodeFunctionSet(snapshot.profile.entered),
        memoryBytes: snapshot.pageCount * PAGE_BYTES,
      });
    }
  }
  return { source: { ...source, snapshots }, skippedTiers };
}
