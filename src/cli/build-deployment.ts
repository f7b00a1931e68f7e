// This project's deployment, with its page, and snapshots, for every command that needs them: configuration from package.json,
// products under dist. The toolchain (binaryen, esbuild, Miniflare) is loaded only where it is used.

import { readDeploymentConfig } from "../toolchain/deployment-config.ts";
import {
  collectEdgeArtifacts,
  collectEdgeGraphs,
  hasEdgeImageTier,
} from "../toolchain/edge-graphs.ts";
import type { BuiltDeployment } from "../toolchain/engine/build-deployment.ts";
import type { ProjectSnapshots } from "../toolchain/engine/tier-snapshots.ts";
import type { DeployedEngine } from "../registry/deployed-engine.ts";
import type { PublishSource } from "../registry/publish.ts";
import {
  ASSETS_FOLDER,
  DEPLOYMENT_FOLDER,
  ENGINE_FOLDER,
  PLAYGROUND_FOLDER,
  PROJECT_ROOT,
  SNAPSHOTS_FOLDER,
} from "./local/paths.ts";

type Log = (line: string) => void;

export interface DeploymentOptions {
  /** Of the package.json; the project's by default. */
  readonly configFolder?: string;
  readonly outFolder?: string;
  readonly log?: Log;
}

/** @throws invalid_configuration, invalid_project, component_failed */
export async function buildProjectDeployment(
  sources: readonly PublishSource[],
  options: DeploymentOptions = {},
): Promise<BuiltDeployment> {
  const { configFolder = PROJECT_ROOT, outFolder = DEPLOYMENT_FOLDER, log = () => {} } = options;
  const [{ buildDeployment }, { buildPlaygroundAssets: buildPage }] = await Promise.all([
    import("../toolchain/engine/build-deployment.ts"),
    import("../toolchain/playground/build-playground-assets.ts"),
  ]);
  await buildPage(PLAYGROUND_FOLDER, ASSETS_FOLDER);
  return await buildDeployment({
    graphs: sources.flatMap(collectEdgeGraphs),
    artifacts: new Map(sources.flatMap(collectEdgeArtifacts)),
    hasImageTier: sources.some(hasEdgeImageTier),
    config: await readDeploymentConfig(configFolder),
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: SNAPSHOTS_FOLDER,
    outFolder,
    log,
  });
}

/** What the model store remembers of a deployment. */
export function deployedEngineOf({ report: { engine } }: BuiltDeployment): DeployedEngine {
  return engine.kind === "cut"
    ? { kind: "cut", source: engine.source, functions: engine.functions }
    : { kind: "full", source: engine.source };
}

/** @throws invalid_project, component_failed */
export async function createProjectSnapshots(
  source: PublishSource,
  log: Log,
): Promise<ProjectSnapshots> {
  const [{ prepareEngine }, { attachSnapshots: withSnapshots }] = await Promise.all([
    import("../toolchain/engine/prepare-engine.ts"),
    import("../toolchain/engine/tier-snapshots.ts"),
  ]);
  const { sha256: engineSha256 } = await prepareEngine({ outDir: ENGINE_FOLDER, log });
  return await withSnapshots(source, {
    engineFolder: ENGINE_FOLDER,
    engineSha256,
    cacheFolder: SNAPSHOTS_FOLDER,
    log,
  });
}
