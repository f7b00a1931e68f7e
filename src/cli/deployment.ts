// This project's deployment and snapshots, for every command that needs them: configuration from package.json, products
// under dist.

import { readDeploymentConfig } from "../build/deployment-config.ts";
import { edgeGraphs } from "../build/edge-graphs.ts";
import { type BuiltDeployment, buildDeployment } from "../build/engine/build.ts";
import { prepareEngine } from "../build/engine/prepare.ts";
import { type ProjectSnapshots, withSnapshots } from "../build/engine/tier-snapshots.ts";
import type { DeployedEngine } from "../registry/deployed-engine.ts";
import type { PublishSource } from "../registry/publish.ts";
import type { CutFunction } from "../runtime/wasm/traps.ts";
import { DEPLOYMENT_FOLDER, ENGINE_FOLDER, PROJECT_ROOT, SNAPSHOTS_FOLDER } from "./local/paths.ts";

type Log = (line: string) => void;

/** @throws invalid_configuration, invalid_project, component_failed */
export async function buildProjectDeployment(sources: readonly PublishSource[], options: { readonly trapped?: readonly CutFunction[]; readonly outFolder?: string; readonly log?: Log } = {}): Promise<BuiltDeployment> {
  return await buildDeployment({
    graphs: sources.flatMap(edgeGraphs),
    config: await readDeploymentConfig(PROJECT_ROOT),
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: SNAPSHOTS_FOLDER,
    outFolder: DEPLOYMENT_FOLDER,
    ...options,
  });
}

/** What the model store remembers of a deployment. */
export function deployedEngine({ report: { engine } }: BuiltDeployment): DeployedEngine {
  return engine.kind === "cut" ? { kind: "cut", source: engine.source, functions: engine.functions } : { kind: "full", source: engine.source };
}

/** @throws invalid_project, component_failed */
export async function makeProjectSnapshots(source: PublishSource, log: Log): Promise<ProjectSnapshots> {
  const { sha256: engineSha256 } = await prepareEngine({ outDir: ENGINE_FOLDER, log });
  return await withSnapshots(source, { engineFolder: ENGINE_FOLDER, engineSha256, cacheFolder: SNAPSHOTS_FOLDER, log });
}
