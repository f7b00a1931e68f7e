// Running system for fault scenarios: real workerd, region processes, Redis and S3, each behind a proxy.
//
// Edge and region trust signed models only. Most scenarios share one edge and one region; scenarios with lasting effects start
// their own over the same store.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readProject } from "../../../src/toolchain/project.ts";
import { createProjectSnapshots } from "../../../src/cli/build-deployment.ts";
import { type WorkerdEdge, startWorkerdEdge } from "../../../src/cli/local/workerd-edge.ts";
import { MODELS_FOLDER, REGION_ENTRY } from "../../../src/cli/local/paths.ts";
import { startLocalRedis } from "../../../src/cli/local/redis.ts";
import { type LocalRegion, startLocalRegion } from "../../../src/cli/local/region.ts";
import { startLocalS3 } from "../../../src/cli/local/s3.ts";
import { bundleWorker, type WorkerUpload } from "../../../src/cli/local/upload.ts";
import { createS3ObjectStore } from "../../../src/registry/drivers/s3.ts";
import type { ModelStore } from "../../../src/registry/model-store.ts";
import type { ObjectStore } from "../../../src/registry/object-store.ts";
import { publishModel, type PublishSource } from "../../../src/registry/publish.ts";
import { toS3Variables } from "../../../src/registry/s3-config.ts";
import { formatPublicKeys } from "../../../src/registry/signing-keys.ts";
import { createModelStore } from "../../../src/registry/object-model-store.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { createTestSigningKey } from "../../support/test-signing-key.ts";
import { buildFixtureDeployment } from "../../support/fixture-deployment.ts";
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

/** @param log steps, for people */
export async function startFaultSystem(log: (line: string) => void): Promise<FaultSystem> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-faults-"));
  const stops: (() => Promise<void>)[] = [() => rm(folder, { recursive: true, force: true })];
  const stop = async () => {
    for (const one of stops.splice(0).toReversed()) await one();
  };
  const stopped = <Part extends { stop(): Promise<void> }>(part: Part): Part => {
    stops.push(part.stop);
    return part;
  };
  try {
    const proxy = async (target: string) => {
      const started = await startFaultProxy(target);
      stops.push(started.close);
      return started;
    };
    log("starting S3 and Redis");
    const s3 = stopped(await startLocalS3({ port: 0 }));
    const redis = await startLocalRedis({ port: 0, onLine: () => {} });
    if (redis !== undefined) stopped(redis);
    const proxies = {
      s3: await proxy(new URL(s3.url).origin),
      redis: await proxy(redis?.url ?? ""),
      region: await proxy(""),
    };

    log("publishing models");
    const key = await createTestSigningKey();
    const objects = createS3ObjectStore(s3.options);
    const store = createModelStore(objects, { signingKeys: [key], trustedKeys: [key.publicKey] });
    const intent = (
      await createProjectSnapshots(await readProject(join(MODELS_FOLDER, "intent")), log)
    ).source;
    await publishModel(store, intent);
    await publishSmallModels(store);

    const throughProxy = {
      ...s3.options,
      endpoint: `${proxies.s3.url}${new URL(s3.url).pathname}`,
    };
    const trust = { EDGETIER_TRUSTED_KEYS: formatPublicKeys([key.publicKey]) };
    const startRegion: FaultSystem["startRegion"] = async (
      variables = {},
      preload = ["intent", "mood"],
    ) =>
      stopped(
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
      ...(redis === undefined
        ? {}
        : { EDGETIER_REDIS_REST_URL: proxies.redis.url, EDGETIER_REDIS_REST_TOKEN: redis.token }),
    };
    const startEdge: FaultSystem["startEdge"] = async (variables = {}, other = upload) => {
      const all = Object.entries({ ...edgeVariables, ...variables }).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value]],
      );
      return stopped(await startWorkerdEdge(other, Object.fromEntries(all)));
    };
    const edge = await startEdge();

    let tensorEdge: Promise<WorkerdEdge> | undefined;
    const openTensorEdge = async () => {
      log("bundling the Worker of small models");
      await buildFixtureDeployment("fixture-worker");
      return await startEdge(
        {},
        await bundleWorker(join(folder, "fixture-worker.bundle"), {
          entry: "test/support/fixture-worker.ts",
        }),
      );
    };
    return {
      store,
      objects,
      intent,
      proxies,
      redis,
      upload,
      edge,
      region,
      getTensorEdge: () => (tensorEdge ??= openTensorEdge()),
      startEdge,
      startRegion,
      log,
      clearFaults() {
        for (const one of Object.values(proxies)) one.fault = { kind: "none" };
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
