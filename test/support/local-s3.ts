import { startLocalS3, type LocalS3 } from "../../src/cli/local/s3.ts";
// Local S3 for tests: Miniflare's R2 bucket behind its S3 interface, in memory, on a free port.
import type { R2BucketLike } from "../../src/registry/drivers/r2.ts";

export interface TestS3 extends LocalS3 {
  readonly bucket: R2BucketLike;
  /** Deletes every object. */
  empty(): Promise<void>;
}

export async function startTestS3(): Promise<TestS3> {
  const s3 = await startLocalS3({ port: 0 });
  const bucket = await s3.r2Bucket();
  return {
    ...s3,
    bucket,
    async empty() {
      for (;;) {
        const { objects } = await bucket.list();
        if (objects.length === 0) return;
        await bucket.delete(objects.map(({ key }) => key));
      }
    },
  };
}
