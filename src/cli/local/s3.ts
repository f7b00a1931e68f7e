// Local S3: serves an R2 bucket of a separate Miniflare through its S3 interface on loopback.

import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { reasonOf } from "../../core/errors.ts";
import { processErrors } from "../../core/process-errors.ts";
import type { S3Options } from "../../registry/s3-config.ts";
import { LOCAL_S3, localS3Endpoint, LOOPBACK } from "./defaults.ts";
import { watchLiveness, type LocalService } from "./local-service.ts";

const PLACEHOLDER_SCRIPT =
  "export default { fetch: () => new Response('This is only an S3 store.', { status: 404 }) };";

export interface LocalS3 extends LocalService {
  readonly options: S3Options;
  /** The same bucket through the R2 binding. */
  r2Bucket(): ReturnType<Miniflare["getR2Bucket"]>;
}

/**
 * Starts the store.
 * @param options.port 0 selects any free port
 * @param options.folder folder of the objects; without it, they are in memory
 * @throws component_failed
 */
export async function startLocalS3(options: {
  readonly port: number;
  readonly folder?: string;
}): Promise<LocalS3> {
  const { accessKeyId, secretAccessKey, bucket } = LOCAL_S3;
  const miniflare = new Miniflare({
    ...convertV4MiniflareOptions({
      modules: true,
      script: PLACEHOLDER_SCRIPT,
      compatibilityDate: "2026-10-01",
      host: LOOPBACK,
      port: options.port,
      log: new Log(LogLevel.ERROR),
      cf: false, // avoids a network request
      r2Buckets: { MODELS: { id: bucket, s3Credentials: { accessKeyId, secretAccessKey } } },
    }),
    // The conversion drops version 4's `r2Persist`.
    ...(options.folder === undefined ? {} : { resourcePersistencePath: options.folder }),
  });
  const stopped = new AbortController();
  try {
    const { port, origin } = await miniflare.ready;
    return {
      name: "model store (S3)",
      url: localS3Endpoint(Number(port)),
      options: { endpoint: localS3Endpoint(Number(port)), ...LOCAL_S3 },
      r2Bucket: () => miniflare.getR2Bucket("MODELS"),
      died: watchLiveness(origin, stopped.signal),
      async stop() {
        stopped.abort();
        await miniflare.dispose();
      },
    };
  } catch (error) {
    await miniflare.dispose().catch(() => {});
    throw processErrors.componentFailed("model store (S3)", reasonOf(error), error);
  }
}
