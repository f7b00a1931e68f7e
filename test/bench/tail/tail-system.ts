// System under test of bench:tail: a Worker in workerd, two region processes and Redis. Regions and Redis are behind fault
// proxies; those of the regions add a fixed network delay.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LocalService } from "../../../src/cli/local/local-service.ts";
import { REGION_ENTRY } from "../../../src/cli/local/paths.ts";
import { startLocalRegion } from "../../../src/cli/local/region.ts";
import { startLocalSystem } from "../../../src/cli/local/system.ts";
import { bundleWorker } from "../../../src/cli/local/upload.ts";
import { type WorkerdEdge, startWorkerdEdge } from "../../../src/cli/local/workerd-edge.ts";
import { type S3Options, toS3Variables } from "../../../src/registry/s3-config.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";

export interface TailRegion {
  readonly proxy: FaultProxy;
  stop(): Promise<void>;
  start(): Promise<void>;
}

export interface TailSystem {
  /** Regions by name. */
  readonly regions: ReadonlyMap<string, TailRegion>;
  /** Undefined if `redis-server` is not installed. */
  readonly redis: FaultProxy | undefined;
  /** Starts the Worker in a new isolate. */
  startEdge(variables?: Readonly<Record<string, string>>): Promise<WorkerdEdge>;
  stop(): Promise<void>;
}

const REGION_NAMES = ["near", "far"];
export const MODEL = "intent";

type StopFunction = () => Promise<unknown>;

/** @param networkDelayMs round trip to a region */
export async function startTailSystem(networkDelayMs: number): Promise<TailSystem> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-tail-"));
  const stops: StopFunction[] = [() => rm(folder, { recursive: true, force: true })];
  const stop = async () => {
    for (const stopPart of stops.toReversed()) await stopPart();
  };
  try {
    const system = await startLocalSystem({
      stateFolder: folder,
      withRegion: false,
      log: console.error,
    });
    stops.push(system.stop);
    const upload = await bundleWorker(join(folder, "worker.bundle"));

    const regions = new Map<string, TailRegion>();
    for (const name of REGION_NAMES)
      regions.set(name, await startTailRegion(system.store, networkDelayMs, stops));
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

/** Starts a region process behind a proxy with a network delay. A restarted process listens on the same port. */
async function startTailRegion(
  store: S3Options,
  networkDelayMs: number,
  stops: StopFunction[],
): Promise<TailRegion> {
  const startProcess = (port: number) =>
    startLocalRegion({
      file: REGION_ENTRY,
      port,
      store,
      preload: [MODEL],
      variables: { EDGETIER_REGION_THREADS: "1" },
      onLine: () => {},
    });
  let region: LocalService | undefined = await startProcess(0);
  const { port, origin } = new URL(region.url);
  const stop = async () => {
    await region?.stop();
    region = undefined;
  };
  stops.push(stop);
  const proxy = await startFaultProxy(origin);
  proxy.latencyMs = networkDelayMs;
  stops.push(proxy.close);
  return {
    proxy,
    stop,
    async start() {
      region = await startProcess(Number(port));
    },
  };
}
