// The system under test of bench:tail: a Worker in workerd alone, two region processes and Redis. Each is behind a proxy with
// a fixed network delay, which can become slow or silent.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type WorkerdEdge, startWorkerdEdge } from "../../../src/cli/local/workerd-edge.ts";
import { REGION_ENTRY } from "../../../src/cli/local/paths.ts";
import type { LocalService } from "../../../src/cli/local/local-service.ts";
import { startLocalRegion } from "../../../src/cli/local/region.ts";
import { startLocalSystem } from "../../../src/cli/local/system.ts";
import { bundleWorker } from "../../../src/cli/local/upload.ts";
import { toS3Variables } from "../../../src/registry/s3-config.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";

export interface TailSystem {
  /** Regions by name. */
  readonly regions: ReadonlyMap<
    string,
    { readonly proxy: FaultProxy; stop(): Promise<void>; start(): Promise<void> }
  >;
  /** Undefined where there is no redis-server. */
  readonly redis: FaultProxy | undefined;
  /** A new isolate. */
  startEdge(variables?: Readonly<Record<string, string>>): Promise<WorkerdEdge>;
  stop(): Promise<void>;
}

const NAMES = ["near", "far"];
export const MODEL = "intent";

/** @param networkDelayMs to a region and back */
export async function startTailSystem(networkDelayMs: number): Promise<TailSystem> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-tail-"));
  const stops: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const stop = async () => {
    for (const one of stops.toReversed()) await one();
  };
  try {
    const system = await startLocalSystem({
      stateFolder: folder,
      withRegion: false,
      log: console.error,
    });
    stops.push(system.stop);
    const upload = await bundleWorker(join(folder, "worker.bundle"));
    const startRegion = (port: number) =>
      startLocalRegion({
        file: REGION_ENTRY,
        port,
        store: system.store,
        preload: [MODEL],
        variables: { EDGETIER_REGION_THREADS: "1" },
        onLine: () => {},
      });

    const regions = new Map<
      string,
      { proxy: FaultProxy; stop(): Promise<void>; start(): Promise<void> }
    >();
    for (const name of NAMES) {
      let region: LocalService | undefined = await startRegion(0);
      const { port, origin } = new URL(region.url);
      const proxy = await startFaultProxy(origin);
      proxy.latencyMs = networkDelayMs;
      stops.push(proxy.close);
      const own = {
        proxy,
        async stop() {
          await region?.stop();
          region = undefined;
        },
        async start() {
          region = await startRegion(Number(port));
        },
      };
      stops.push(own.stop);
      regions.set(name, own);
    }
    const redis =
      system.urls.redis === undefined ? undefined : await startFaultProxy(system.urls.redis);
    if (redis !== undefined) stops.push(redis.close);

    return {
      regions,
      redis,
      async startEdge(variables = {}) {
        return await startWorkerdEdge(upload, {
          ...toS3Variables(system.store),
          EDGETIER_REGIONS: JSON.stringify(
            [...regions].map(([id, { proxy }]) => ({ id, url: proxy.url })),
          ),
          ...(redis === undefined
            ? {}
            : {
                EDGETIER_REDIS_REST_URL: redis.url,
                EDGETIER_REDIS_REST_TOKEN: system.redisToken ?? "",
              }),
          ...variables,
        });
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
