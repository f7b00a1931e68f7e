// A deployment of tensor models, of two that take images, one that gives vectors, and of the toy, as `edgetier engine build` makes one of model projects.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { readDeploymentConfig } from "../../src/toolchain/deployment-config.ts";
import { edgeArtifacts, edgeGraphs, takesImages } from "../../src/toolchain/edge-graphs.ts";
import { buildDeployment } from "../../src/toolchain/engine/build.ts";
import { ENGINE_FOLDER, PROJECT_ROOT, SNAPSHOTS_FOLDER } from "../../src/cli/local/paths.ts";
import { colourProject } from "./colour-model.ts";
import { stagedProject } from "./staged-model.ts";
import { smallGraph } from "./small-graphs.ts";
import { identityAll, int8MatMul, stringIdentity, tensorProject } from "./tensor-model.ts";
import { vectorProject } from "./vector-model.ts";

/** @param folder under dist/test: whoever imports the deployment names it */
export async function buildTensorDeployment(folder: string): Promise<void> {
  const fixture = async (name: string) =>
    new Uint8Array(await readFile(join(PROJECT_ROOT, `test/fixtures/${name}.onnx`)));
  const sources = [
    tensorProject("identity", identityAll(await fixture("identity-all"))),
    tensorProject("matmul", int8MatMul(await fixture("int8-matmul")), ["left", "right"]),
    tensorProject("words", stringIdentity(await fixture("string-identity"))),
    colourProject(),
    stagedProject(),
    vectorProject(),
  ];
  await buildDeployment({
    graphs: [...sources.flatMap(edgeGraphs), await smallGraph("toy")],
    artifacts: new Map(sources.flatMap(edgeArtifacts)),
    images: sources.some(takesImages),
    config: await readDeploymentConfig(PROJECT_ROOT),
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: SNAPSHOTS_FOLDER,
    outFolder: join(PROJECT_ROOT, "dist/test", folder),
  });
}
