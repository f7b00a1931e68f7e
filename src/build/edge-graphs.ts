// The graphs that a deployment's edge runs: those of the edge tiers of its model projects.

import { createHash } from "node:crypto";
import { errors } from "../core/errors.ts";
import type { PublishSource } from "../registry/publish.ts";
import type { DeployedGraph } from "./engine/build.ts";

/** @throws invalid_project if the project names a graph that `source.files` does not have */
export function edgeGraphs({ project, files }: PublishSource): DeployedGraph[] {
  return project.tiers.flatMap((tier, position) => {
    if (tier.place !== "edge") return [];
    const bytes = files.get(tier.graph);
    if (bytes === undefined) throw errors.invalidProject(project.model, [`the file ${tier.graph} is missing`]);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const hasRegion = project.tiers.some(({ place }) => place === "region");
    return [{ model: project.model, tier: tier.id, bytes, sha256, inputs: tier.inputs, first: position === 0, hasRegion }];
  });
}
