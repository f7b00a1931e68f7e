// Global setup: starts S3 and Redis servers for tests in workerd, and builds two deployments with `edgetier engine build`'s code.
// One deployment has the reference models (test/support/reference-models.ts), the other has tensor models.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { ENGINE_FOLDER, PROJECT_ROOT, SNAPSHOTS_FOLDER } from "../../src/cli/local/paths.ts";
import { startLocalRedis } from "../../src/cli/local/redis.ts";
import { startLocalS3 } from "../../src/cli/local/s3.ts";
import type { S3Options } from "../../src/registry/s3-config.ts";
import { readDeploymentConfig } from "../../src/toolchain/deployment-config.ts";
import { buildDeployment } from "../../src/toolchain/engine/build-deployment.ts";
import { buildFixtureDeployment } from "../support/fixture-deployment.ts";
import { type NamedRegions, startNamedRegions } from "../support/named-regions.ts";
import { intentSpecs, makeSmallMobileNet, mobileNetSpecs } from "../support/reference-models.ts";

declare module "vitest" {
  interface ProvidedContext {
    s3: S3Options;
    redis: { readonly url: string; readonly token: string } | null;
    regions: NamedRegions["urls"];
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await buildReferenceDeployment();
  await buildFixtureDeployment("tensors");
  const s3 = await startLocalS3({ port: 0 });
  const redis = await startLocalRedis({ port: 0, onLine: () => {} });
  if (redis === undefined)
    console.warn(
      "redis-server is not on the PATH; tests of the L2 cache in workerd are skipped. Install Redis to run them.",
    );
  const regions = await startNamedRegions();
  project.provide("s3", s3.options);
  project.provide("regions", regions.urls);
  project.provide("redis", redis === undefined ? null : { url: redis.url, token: redis.token });
  return async () => {
    regions.stop();
    await redis?.stop();
    await s3.stop();
  };
}

async function buildReferenceDeployment(): Promise<void> {
  const graph = (model: string, bytes: Uint8Array, inputs: typeof intentSpecs) => ({
    model,
    tier: "edge",
    bytes,
    sha256: createHash("sha256").update(bytes).digest("hex"),
    inputs,
    isFirstTier: true,
    hasRegion: true,
  });
  await buildDeployment({
    graphs: [
      graph(
        "intent",
        await readFile(join(PROJECT_ROOT, "models/intent/artifacts/edge.onnx")),
        intentSpecs,
      ),
      graph("mobilenet", makeSmallMobileNet(), mobileNetSpecs),
    ],
    config: await readDeploymentConfig(PROJECT_ROOT),
    engineFolder: ENGINE_FOLDER,
    snapshotsFolder: SNAPSHOTS_FOLDER,
    outFolder: join(PROJECT_ROOT, "dist/test/edge"),
  });
}
