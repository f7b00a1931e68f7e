// Deployment build: builds this project's deployment, playground page and snapshots for the commands that need them.
// Configuration comes from package.json, products go to dist. Heavy tools (binaryen, esbuild, Miniflare) are imported lazily.

import type { DeployedEngine } from "../registry/deployed-engine.ts";
import type { PublishSource } from "../registry/publish.ts";
import { readDeploymentConfig } from "../toolchain/deployment-config.ts";
import {
  collectEdgeArtifacts,
  collectEdgeGraphs,
  hasEdgeImageTier,
} from "../toolchain/edge-graphs.ts";
import type { BuiltDeployment } from "../toolchain/engine/build-deployment.ts";
import type { ProjectSnapshots } from "../toolchain/engine/tier-snapshots.ts";
import {
  ASSETS_FOLDER,
  DEPLOYMENT_FOLDER,
  ENGINE_FOLDER,
  PLAYGROUND_FOLDER,
  PROJECT_ROOT,
  SNAPSHOTS_FOLDER,
} from "./local/paths.ts";
import { printWarning } from "./output.ts";

type Log = (line: string) => void;

export interface DeploymentOptions {
  /** Folder of the package.json with the configuration; by default the project's. */
  readonly configFolder?: string;
  readonly outFolder?: string;
  readonly log?: Log;
}

/** Builds the playground page and the deployment. @throws invalid_configuration, invalid_project, component_failed */
export async function buildProjectDeployment(
  sources: readonly PublishSource[],
  options: DeploymentOptions = {},
): Promise<BuiltDeployment> {
  const { configFolder = PROJECT_ROOT, outFolder = DEPLOYMENT_FOLDER, log = () => {} } = options;
  const [{ buildDeployment }, { buildPlaygroundAssets }] = await Promise.all([
    import("../toolchain/engine/build-deployment.ts"),
    import("../toolchain/playground/build-playground-assets.ts"),
  ]);
  await buildPlaygroundAssets(PLAYGROUND_FOLDER, ASSETS_FOLDER);
  return await buildDeployment({
    graphs: sources.flatMap(collectEdgeGraphs),
    artifacts: new Map(sources.flatMap(collectEdgeArtifacts)),
    hasImageTier: sources.some(hasEdgeImageTier),
    config: await readDeploymentConfig(configFolder, printWarning),
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: SNAPSHOTS_FOLDER,
    outFolder,
    log,
  });
}

/** Returns the engine facts that the model store records about a deployment. */
export function deployedEngineOf({ report: { engine } }: BuiltDeployment): DeployedEngine {
  return engine.kind === "cut"
    ? { kind: "cut", source: engine.source, functions: engine.functions }
    : { kind: "full", source: engine.source };
}

/** Creates the snapshots of a project's edge tiers. @throws invalid_project, component_failed */
export async function createProjectSnapshots(
  source: PublishSource,
  log: Log,
): Promise<ProjectSnapshots> {
  const [{ prepareEngine }, { attachSnapshots }] = await Promise.all([
    import("../toolchain/engine/prepare-engine.ts"),
    import("../toolchain/engine/tier-snapshots.ts"),
  ]);
  const { sha256: engineSha256 } = await prepareEngine({ outDir: ENGINE_FOLDER, log });
  return await attachSnapshots(source, {
    engineFolder: ENGINE_FOLDER,
    engineSha256,
    cacheFolder: SNAPSHOTS_FOLDER,
    log,
  });
}
