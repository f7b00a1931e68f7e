// Local publication: publishes every project with its snapshots to the local model store.

import { createS3ObjectStore } from "../../registry/drivers/s3.ts";
import { createModelStore } from "../../registry/object-model-store.ts";
import { publishModel, type PublishResult, type PublishSource } from "../../registry/publish.ts";
import type { S3Options } from "../../registry/s3-config.ts";
import type { SigningKey } from "../../registry/signing-keys.ts";
import type { BuiltDeployment } from "../../toolchain/engine/build-deployment.ts";
import { deployedEngineOf, createProjectSnapshots } from "../build-deployment.ts";

/**
 * Publishes the projects and records the local edge's engine.
 * @param signingKeys an empty list leaves the manifests unsigned
 * @throws model_store_unavailable, component_failed
 */
export async function publishProjects(
  sources: readonly PublishSource[],
  deployment: BuiltDeployment,
  options: S3Options,
  log: (line: string) => void,
  signingKeys: readonly SigningKey[] = [],
): Promise<PublishResult[]> {
  const trustedKeys =
    signingKeys.length === 0 ? undefined : signingKeys.map(({ publicKey }) => publicKey);
  const store = createModelStore(createS3ObjectStore(options), { trustedKeys, signingKeys });
  await store.writeDeployedEngine(deployedEngineOf(deployment));
  const published: PublishResult[] = [];
  for (const project of sources)
    published.push(await publishModel(store, (await createProjectSnapshots(project, log)).source));
  return published;
}
