// Starts what tests inside workerd reach over the network: a real S3, and a real Redis where there is one.
import type { TestProject } from "vitest/node";
import { startLocalRedis } from "../../src/cli/local/redis.ts";
import { startLocalS3 } from "../../src/cli/local/s3.ts";
import type { S3Options } from "../../src/registry/s3-config.ts";

declare module "vitest" {
  interface ProvidedContext {
    s3: S3Options;
    redis: { readonly url: string; readonly token: string } | null;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const s3 = await startLocalS3({ port: 0 });
  const redis = await startLocalRedis({ port: 0, onLine: () => {} });
  if (redis === undefined) console.warn("no redis-server on the PATH: tests of the L2 cache in workerd are skipped");
  project.provide("s3", s3.options);
  project.provide("redis", redis === undefined ? null : { url: redis.url, token: redis.token });
  return async () => {
    await redis?.stop();
    await s3.stop();
  };
}
