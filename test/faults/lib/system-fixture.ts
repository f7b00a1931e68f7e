// Running system for fault scenarios: real workerd, region processes, Redis and S3, each behind a proxy.
//
// Edge and region trust signed models only. Most scenarios share one edge and one region; scenarios with lasting effects start
// their own over the same store.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createProjectSnapshots } from "../../../src/cli/build-deployment.ts";
import { MODELS_FOLDER, REGION_ENTRY } from "../../../src/cli/local/paths.ts";
import { startLocalRedis } from "../../../src/cli/local/redis.ts";
import { type LocalRegion, startLocalRegion } from "../../../src/cli/local/region.ts";
import { startLocalS3 } from "../../../src/cli/local/s3.ts";
import { bundleWorker, type WorkerUpload } from "../../../src/cli/local/upload.ts";
import { type WorkerdEdge, startWorkerdEdge } from "../../../src/cli/local/workerd-edge.ts";
import { createS3ObjectStore } from "../../../src/registry/drivers/s3.ts";
import type { ModelStore } from "../../../src/registry/model-store.ts";
import { createModelStore } from "../../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../../src/registry/object-store.ts";
import { publishModel, type PublishSource } from "../../../src/registry/publish.ts";
import { toS3Variables } from "../../../src/registry/s3-config.ts";
import { formatPublicKeys } from "../../../src/registry/signing-keys.ts";
import { readProject } from "../../../src/toolchain/project.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { buildFixtureDeployment } from "../../support/fixture-deployment.ts";
import { createTestSigningKey } from "../../support/test-signing-key.ts";
import { publishSmallModels } from "./small-models.ts";

type Variables = Readonly<Record<string, string>>;

/** Versions that no alias names any more go soon: scenarios publish many. */
const REGION_VARIABLES = { EDGETIER_REGION_THREADS: "1", EDGETIER_REGION_LEFTOVER_IDLE_MS: "1000" };

export interface FaultSystem {
  /** Reaches the store without the proxy. */
  readonly store: ModelStore;
  readonly objects: ObjectStore;
  /** Project models/intent with its snapshot. */
  readonly intent: PublishSource;
  /** Between the edges and the first region, Redis, and between everything and S3. */
  readonly proxies: {
    readonly region: FaultProxy;
    readonly redis: FaultProxy;
    readonly s3: FaultProxy;
  };
  /** Undefined where the machine has no redis-server. */
  readonly redis: { readonly url: string; readonly token: string } | undefined;
  /** Upload that `wrangler deploy` makes. */
  readonly upload: WorkerUpload;
  readonly edge: WorkerdEdge;
  readonly region: LocalRegion;
  /** The Worker with the deployment of test/support/fixture-deployment.ts, started when it is first asked for. */
  getTensorEdge(): Promise<WorkerdEdge>;
  /** Starts an edge of the caller's own; an undefined variable is removed. `stop` also stops this edge. */
  startEdge(
    variables?: Readonly<Record<string, string | undefined>>,
    upload?: WorkerUpload,
  ): Promise<WorkerdEdge>;
  startRegion(variables?: Variables, preload?: readonly string[]): Promise<LocalRegion>;
  /** How far a long scenario has come. */
  readonly log: (line: string) => void;
  /** Ends all faults of the proxies. */
  clearFaults(): void;
  stop(): Promise<void>;
}

/** Collects the stops of parts, and runs them in reverse order. */
function createStops() {
  const stops: (() => Promise<void>)[] = [];
  return {
    add: (stop: () => Promise<void>) => void stops.push(stop),
    addPart: <Part extends { stop(): Promise<void> }>(part: Part): Part => {
      stops.push(part.stop);
      return part;
    },
    async stop() {
      for (const stop of stops.splice(0).toReversed()) await stop();
    },
  };
}

type Stops = ReturnType<typeof createStops>;

async function startProxy(target: string, stops: Stops): Promise<FaultProxy> {
  const proxy = await startFaultProxy(target);
  stops.add(proxy.close);
  return proxy;
}

/** The region's proxy gets its target once the region runs. */
const startProxies = async (s3: string, redis: string, stops: Stops) => ({
  s3: await startProxy(s3, stops),
  redis: await startProxy(redis, stops),
  region: await startProxy("", stops),
});

type Log = FaultSystem["log"];

const PRELOADED_MODELS = ["intent", "mood"];

/** Signs and publishes `intent` and the small models. */
async function publishModels(objects: ObjectStore, log: Log) {
  log("publishing models");
  const key = await createTestSigningKey();
  const store = createModelStore(objects, { signingKeys: [key], trustedKeys: [key.publicKey] });
  const project = await readProject(join(MODELS_FOLDER, "intent"));
  const intent = (await createProjectSnapshots(project, log)).source;
  await publishModel(store, intent);
  await publishSmallModels(store);
  return { store, intent, trust: { EDGETIER_TRUSTED_KEYS: formatPublicKeys([key.publicKey]) } };
}

async function bundleFixtureWorker(folder: string, log: Log): Promise<WorkerUpload> {
  log("bundling the Worker of small models");
  await buildFixtureDeployment("fixture-worker");
  return await bundleWorker(join(folder, "fixture-worker.bundle"), {
    entry: "test/support/fixture-worker.ts",
  });
}

/** @param log steps, for people */
export async function startFaultSystem(log: Log): Promise<FaultSystem> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-faults-"));
  const stops = createStops();
  stops.add(() => rm(folder, { recursive: true, force: true }));
  try {
    return await startParts(folder, stops, log);
  } catch (error) {
    await stops.stop();
    throw error;
  }
}

const toRedisVariables = (url: string, token: string | undefined): Variables =>
  token === undefined ? {} : { EDGETIER_REDIS_REST_URL: url, EDGETIER_REDIS_REST_TOKEN: token };

const omitUndefined = (variables: Readonly<Record<string, string | undefined>>): Variables =>
  Object.fromEntries(
    Object.entries(variables).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    ),
  );

async function startParts(folder: string, stops: Stops, log: Log): Promise<FaultSystem> {
  log("starting S3 and Redis");
  const s3 = stops.addPart(await startLocalS3({ port: 0 }));
  const redis = await startLocalRedis({ port: 0, onLine: () => {} });
  if (redis !== undefined) stops.addPart(redis);
  const proxies = await startProxies(new URL(s3.url).origin, redis?.url ?? "", stops);
  const objects = createS3ObjectStore(s3.options);
  const { store, intent, trust } = await publishModels(objects, log);
  const throughProxy = { ...s3.options, endpoint: `${proxies.s3.url}${new URL(s3.url).pathname}` };

  const startRegion: FaultSystem["startRegion"] = async (variables, preload = PRELOADED_MODELS) =>
    stops.addPart(
      await startLocalRegion({
        file: REGION_ENTRY,
        port: 0,
        store: throughProxy,
        preload,
        variables: { ...trust, ...REGION_VARIABLES, ...variables },
        onLine: () => {},
      }),
    );
  log("starting a region");
  const region = await startRegion();
  proxies.region.target = region.url;

  log("bundling the Worker");
  const upload = await bundleWorker(join(folder, "worker.bundle"));
  const edgeVariables: Variables = {
    ...toS3Variables(throughProxy),
    ...trust,
    EDGETIER_REGION_URL: proxies.region.url,
    ...toRedisVariables(proxies.redis.url, redis?.token),
  };
  const startEdge: FaultSystem["startEdge"] = async (variables = {}, other = upload) => {
    const defined = omitUndefined({ ...edgeVariables, ...variables });
    return stops.addPart(await startWorkerdEdge(other, defined));
  };
  const edge = await startEdge();

  let tensorEdge: Promise<WorkerdEdge> | undefined;
  return {
    store,
    objects,
    intent,
    proxies,
    redis,
    upload,
    edge,
    region,
    getTensorEdge: () =>
      (tensorEdge ??= bundleFixtureWorker(folder, log).then((bundle) => startEdge({}, bundle))),
    startEdge,
    startRegion,
    log,
    clearFaults() {
      for (const proxy of Object.values(proxies)) proxy.fault = { kind: "none" };
    },
    stop: stops.stop,
  };
}
