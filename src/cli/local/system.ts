// Local system: runs the whole system on one machine with real services. Starts S3, Redis, region and edge; stops them in reverse.

import { access } from "node:fs/promises";
import { join } from "node:path";
import { type EdgeTierError } from "../../core/errors.ts";
import { processErrors } from "../../core/process-errors.ts";
import { generateRegionKey, type RegionKey, formatRegionKey } from "../../region/region-keys.ts";
import type { PublishResult, PublishSource } from "../../registry/publish.ts";
import { type S3Options, toS3Variables } from "../../registry/s3-config.ts";
import { formatPublicKeys, type SigningKey } from "../../registry/signing-keys.ts";
import { readProjects } from "../../toolchain/project.ts";
import { buildProjectDeployment } from "../build-deployment.ts";
import { cliErrors } from "../errors.ts";
import { LOOPBACK } from "./defaults.ts";
import { startLocalEdge } from "./edge.ts";
import type { LocalService } from "./local-service.ts";
import { MODELS_FOLDER, REGION_ENTRY, WRANGLER_CONFIG } from "./paths.ts";
import { findFreePort, type LocalPorts, assertPortsFree } from "./ports.ts";
import { publishProjects } from "./publish-projects.ts";
import { type LocalRedis, startLocalRedis } from "./redis.ts";
import { startLocalRegion } from "./region.ts";
import { startLocalS3 } from "./s3.ts";

export interface LocalSystemOptions {
  /** Ports by variable. A missing port or 0 selects any free one. */
  readonly ports?: Partial<LocalPorts>;
  /** Folder of the model store and of all other written files. */
  readonly stateFolder: string;
  /** False omits the L2 cache. */
  readonly withRedis?: boolean;
  /** False omits the region. */
  readonly withRegion?: boolean;
  readonly edgeVariables?: Readonly<Record<string, string>>;
  /** `EDGETIER_REGION_KEYS: ""` accepts unsigned requests; by default, only this system's edge has the key. */
  readonly regionVariables?: Readonly<Record<string, string>>;
  readonly modelsFolder?: string;
  /** Keys that sign the manifests; edge and region trust only these. */
  readonly signingKeys?: readonly SigningKey[];
  /** Replacements for the project's deployment and programs, for tests of this file. */
  readonly deploymentFolder?: string;
  readonly wranglerConfig?: string;
  readonly regionFile?: string;
  /** Receives progress lines for people. */
  readonly log?: (line: string) => void;
  /** Receives output lines of the services. */
  readonly onLine?: (part: string, line: string) => void;
  /** Aborts the start and stops started services. */
  readonly signal?: AbortSignal;
}

export interface LocalSystem {
  readonly urls: {
    readonly edge: string;
    readonly region?: string;
    readonly s3: string;
    readonly redis?: string;
  };
  readonly services: readonly LocalService[];
  readonly store: S3Options;
  readonly redisToken: string | undefined;
  /** The key with which requests to the region are signed. */
  readonly regionKey: RegionKey;
  readonly models: readonly PublishResult[];
  /** Resolves with component_died if a service ends without `stop`. */
  readonly died: Promise<EdgeTierError>;
  /** Stops all services, the edge first. */
  stop(): Promise<void>;
}

/** Starts the system. @throws port_in_use (AggregateError for several), component_failed, invalid_project, or the signal's reason */
export async function startLocalSystem(options: LocalSystemOptions): Promise<LocalSystem> {
  await assertPortsFree(options.ports ?? {});
  const services: LocalService[] = [];
  const stop = async () => {
    for (const service of services.toReversed()) await service.stop();
  };
  const register = async <Started extends LocalService>(
    starting: Promise<Started>,
  ): Promise<Started> => {
    const service = await starting;
    services.push(service);
    options.signal?.throwIfAborted();
    return service;
  };
  try {
    const started = await startServices(options, register);
    const died = Promise.race(
      services.map(({ name, died: ended }) =>
        ended.then((ending) => cliErrors.componentDied(name, ending)),
      ),
    );
    return { ...started, services, died, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Adds a starting service to those that `stop` ends. */
type Register = <Started extends LocalService>(starting: Promise<Started>) => Promise<Started>;

async function startServices(
  options: LocalSystemOptions,
  register: Register,
): Promise<Omit<LocalSystem, "services" | "died" | "stop">> {
  const { ports = {}, stateFolder, signal, log = () => {}, onLine = () => {} } = options;
  const s3 = await register(
    startLocalS3({ port: ports.EDGETIER_S3_PORT ?? 0, folder: join(stateFolder, "s3") }),
  );
  const redis =
    options.withRedis === false
      ? undefined
      : await startLocalRedis({
          port: ports.EDGETIER_REDIS_REST_PORT ?? 0,
          onLine: (line) => onLine("redis", line),
        });
  if (redis !== undefined) await register(Promise.resolve(redis));
  else if (options.withRedis !== false)
    log("The L2 cache is off, because this machine has no redis-server.");

  const { sources, models } = await publishModels(options, s3.options);
  signal?.throwIfAborted();
  const regionKey = generateRegionKey("local");
  const { region, edge } = await startRegionAndEdge(options, register, {
    store: s3.options,
    redis,
    sources,
    keyText: formatRegionKey(regionKey),
  });
  return {
    urls: {
      edge: edge.url,
      s3: s3.url,
      ...(region && { region: region.url }),
      ...(redis && { redis: redis.url }),
    },
    store: s3.options,
    redisToken: redis?.token,
    regionKey,
    models,
  };
}

/** Builds the deployment of all projects, and publishes them to the store. */
async function publishModels(
  {
    modelsFolder = MODELS_FOLDER,
    deploymentFolder,
    signingKeys,
    signal,
    ...options
  }: LocalSystemOptions,
  store: S3Options,
) {
  const { log = () => {} } = options;
  const sources = await readProjects(modelsFolder, log);
  const deployment = await buildProjectDeployment(sources, {
    log,
    ...(deploymentFolder === undefined ? {} : { outFolder: deploymentFolder }),
  });
  signal?.throwIfAborted();
  const models = await publishProjects(sources, deployment, store, log, signingKeys);
  for (const { model, version, outcome } of models)
    log(`${outcome === "published" ? "published" : "in the store:"} ${model}@${version}`);
  return { sources, models };
}

interface EdgeAndRegionInputs {
  readonly store: S3Options;
  readonly redis: LocalRedis | undefined;
  readonly sources: readonly PublishSource[];
  readonly keyText: string;
}

/** Starts region and edge concurrently, because each takes seconds and neither needs the other before a request. */
async function startRegionAndEdge(
  options: LocalSystemOptions,
  register: Register,
  { store, redis, sources, keyText }: EdgeAndRegionInputs,
) {
  const { ports = {}, signingKeys = [], onLine = () => {} } = options;
  const trust =
    signingKeys.length === 0
      ? {}
      : { EDGETIER_TRUSTED_KEYS: formatPublicKeys(signingKeys.map(({ publicKey }) => publicKey)) };
  // Concurrent searches return different ports.
  const [regionPort, edgePort] = await Promise.all([
    ports.EDGETIER_REGION_PORT || findFreePort(),
    ports.EDGETIER_PORT || findFreePort(),
  ]);
  const regionVariables = { ...trust, EDGETIER_REGION_KEYS: keyText, ...options.regionVariables };
  const startRegion = async () =>
    await startLocalRegion({
      file: await assertFile("region", options.regionFile ?? REGION_ENTRY),
      port: regionPort,
      store,
      preload: sources
        .filter(({ project: { tiers } }) => tiers.some(({ place }) => place === "region"))
        .map(({ project: { model } }) => model),
      variables: regionVariables,
      onLine: (line) => onLine("region", line),
    });
  const edgeVariables = {
    ...toS3Variables(store),
    ...trust,
    EDGETIER_METRICS_SCOPE: "metadata", // the local edge has no authentication by default
    ...(options.withRegion === false
      ? {}
      : {
          EDGETIER_REGION_URL: `http://${LOOPBACK}:${regionPort}`,
          EDGETIER_REGION_KEY: keyText,
        }),
    ...(redis === undefined
      ? {}
      : { EDGETIER_REDIS_REST_URL: redis.url, EDGETIER_REDIS_REST_TOKEN: redis.token }),
    ...options.edgeVariables,
  };
  const starting = [
    options.withRegion === false ? undefined : register(startRegion()),
    register(
      startLocalEdge({
        config: options.wranglerConfig ?? WRANGLER_CONFIG,
        port: edgePort,
        stateFolder: join(options.stateFolder, "wrangler"),
        variables: edgeVariables,
        onLine: (line) => onLine("edge", line),
      }),
    ),
  ] as const;
  await Promise.allSettled(starting); // if one fails, `stop` must also stop the other
  return { region: await starting[0], edge: await starting[1] };
}

async function assertFile(part: string, file: string): Promise<string> {
  try {
    await access(file);
    return file;
  } catch (error) {
    throw processErrors.componentFailed(part, `${file} is missing`, error);
  }
}
