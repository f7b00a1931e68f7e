// Collects from model projects what a deployment's edge needs: the graphs of edge tiers, labels and preprocessor files.

import type { PublishSource } from "../registry/publish.ts";
import { publishingErrors } from "../registry/publishing-errors.ts";
import type { DeployedGraph } from "./engine/build-deployment.ts";
import { sha256HexSync } from "./sha256-sync.ts";

/** Labels and preprocessor files of a project with edge tiers, by SHA-256. */
export function collectEdgeArtifacts({
  project,
  files,
}: PublishSource): [sha256: string, bytes: Uint8Array][] {
  if (project.tiers.every(({ place }) => place !== "edge")) return [];
  const preprocessors =
    project.task === "tensor"
      ? []
      : project.tiers.flatMap((tier) =>
          tier.place === "edge" && "artifact" in tier.preprocessor
            ? [tier.preprocessor.artifact]
            : [],
        );
  return [project.labels, ...preprocessors].flatMap((path) => {
    const bytes = path === undefined ? undefined : files.get(path);
    return bytes === undefined ? [] : [[sha256HexSync(bytes), bytes]];
  });
}

/** Whether an edge tier takes images, so that the Worker must bundle the image decoders. */
export function hasEdgeImageTier({ project }: PublishSource): boolean {
  return (
    project.task === "image-classification" && project.tiers.some(({ place }) => place === "edge")
  );
}

/** @throws invalid_project if the project names a graph that `source.files` lacks */
export function collectEdgeGraphs({ project, files }: PublishSource): DeployedGraph[] {
  return project.tiers.flatMap((tier, position) => {
    if (tier.place !== "edge") return [];
    const bytes = files.get(tier.graph);
    if (bytes === undefined)
      throw publishingErrors.invalidProject(project.model, [`${tier.graph} is missing`]);
    const sha256 = sha256HexSync(bytes);
    const hasRegion = project.tiers.some(({ place }) => place === "region");
    return [
      {
        model: project.model,
        tier: tier.id,
        bytes,
        sha256,
        inputs: tier.inputs,
        isFirstTier: position === 0,
        hasRegion,
      },
    ];
  });
}
