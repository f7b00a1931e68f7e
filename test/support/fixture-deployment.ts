// Fixture deployment: builds a deployment like `edgetier engine build`, from tensor models, two image models, an embedding
// model and the toy model.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ENGINE_FOLDER, PROJECT_ROOT, SNAPSHOTS_FOLDER } from "../../src/cli/local/paths.ts";
import { readDeploymentConfig } from "../../src/toolchain/deployment-config.ts";
import {
  collectEdgeArtifacts,
  collectEdgeGraphs,
  hasEdgeImageTier,
} from "../../src/toolchain/edge-graphs.ts";
import { buildDeployment } from "../../src/toolchain/engine/build-deployment.ts";
import { colorProject } from "./color-model.ts";
import { embeddingProject } from "./embedding-model.ts";
import { readFixtureGraph } from "./fixture-graphs.ts";
import { stagedProject } from "./staged-model.ts";
import {
  identityGraph,
  int8MatMulGraph,
  stringIdentityGraph,
  tensorProject,
} from "./tensor-model.ts";

/** @param folder name under dist/test, from which tests import the deployment */
export async function buildFixtureDeployment(folder: string): Promise<void> {
  const fixture = async (name: string) =>
    new Uint8Array(await readFile(join(PROJECT_ROOT, `test/fixtures/${name}.onnx`)));
  const sources = [
    tensorProject("identity", identityGraph(await fixture("identity-all"))),
    tensorProject("matmul", int8MatMulGraph(await fixture("int8-matmul")), ["left", "right"]),
    tensorProject("words", stringIdentityGraph(await fixture("string-identity"))),
    colorProject(),
    stagedProject(),
    embeddingProject(),
  ];
  await buildDeployment({
    graphs: [...sources.flatMap(collectEdgeGraphs), await readFixtureGraph("toy")],
    artifacts: new Map(sources.flatMap(collectEdgeArtifacts)),
    hasImageTier: sources.some(hasEdgeImageTier),
    config: await readDeploymentConfig(PROJECT_ROOT),
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: SNAPSHOTS_FOLDER,
    outFolder: join(PROJECT_ROOT, "dist/test", folder),
  });
}
