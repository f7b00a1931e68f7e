#!/usr/bin/env node
// Region server: creates its components from EDGETIER_* variables, serves, and drains on SIGTERM or SIGINT.

import { hostname } from "node:os";
import packageJson from "../../package.json" with { type: "json" };
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { asEdgeTierError } from "../../src/core/errors.ts";
import { processErrors } from "../../src/core/process-errors.ts";
import type { Tracer } from "../../src/core/tracing.ts";
import { createRegionApp, type RegionAppDependencies } from "../../src/region/server/app.ts";
import { createBatchSpanRecorder } from "../../src/region/server/batch-spans.ts";
import { createConcurrencyLimiter } from "../../src/region/server/batching/concurrency-limiter.ts";
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import { createPreciseClock } from "../../src/region/server/batching/precise-clock.ts";
import type { Executor } from "../../src/region/server/executor.ts";
import { createLifecycle } from "../../src/region/server/lifecycle.ts";
import {
  createModelRepository,
  type ModelRepository,
} from "../../src/region/server/model-repository.ts";
import type { OperatorConfig } from "../../src/region/server/operator-config.ts";
import { createRequestCoalescer } from "../../src/region/server/request-coalescing.ts";
import { startRegionServer, type RegionServer } from "../../src/region/server/server.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { toS3Options } from "../../src/registry/s3-config.ts";
import { createIsolatedRuntime } from "../../src/runtime/native/isolated-runtime.ts";
import { createConfiguredTracer } from "../../src/telemetry/trace-config.ts";
import { createAuthentication } from "./authentication.ts";
import { createInstrumentation, type Instrumentation } from "./instrumentation.ts";
import { createLog, type Log } from "./log.ts";
import { readModelsFile } from "./models-file.ts";
import { batchingDefaultsOf, readRegionSettings, type RegionSettings } from "./settings.ts";

/** Components that most parts of the server share. */
interface ServerContext {
  readonly settings: RegionSettings;
  readonly operatorConfig: OperatorConfig;
  readonly instrumentation: Instrumentation;
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly log: Log;
}

async function main(): Promise<void> {
  const context = await createContext();
  const { settings, instrumentation, tracer, log } = context;
  const repository = createRepository(context);
  const executor = createTracedExecutor(context);
  const lifecycle = createLifecycle();
  instrumentation.registerGauges({ executor, repository, lifecycle });
  const app = await createApp(context, { repository, executor, lifecycle });
  const server = await startRegionServer({
    fetch: app.fetch,
    lifecycle,
    host: settings.EDGETIER_REGION_HOST,
    port: settings.EDGETIER_REGION_PORT,
    drainTimeouts: {
      lingerMs: settings.EDGETIER_DRAIN_LINGER_MS,
      timeoutMs: settings.EDGETIER_DRAIN_TIMEOUT_MS,
    },
  });
  stopOnSignal({ server, repository, tracer, log });
  log({ event: "listening", url: server.url });

  // A model that fails to load is logged and tried again on request, so that the other models can serve.
  const preload = () => repository.preload(settings.EDGETIER_REGION_PRELOAD.refs);
  await preload();
  lifecycle.start();
  log({ event: "ready" });
  if (settings.EDGETIER_REGION_POLL_MS > 0)
    scheduleRepeatedly(preload, settings.EDGETIER_REGION_POLL_MS);
}

async function createContext(): Promise<ServerContext> {
  const settings = readRegionSettings(process.env);
  const log = createLog(settings);
  const operatorConfig = await readModelsConfig(settings);
  const instrumentation = createInstrumentation({ clock: systemClock, log });
  const clock = createPreciseClock();
  const tracer = createConfiguredTracer(settings, {
    resource: { "service.name": "edgetier-region", "host.name": hostname() },
    clock,
    onSpansDropped: instrumentation.metrics.recordDroppedSpans,
    log,
  });
  return { settings, operatorConfig, instrumentation, clock, tracer, log };
}

const createRepository = ({
  settings,
  operatorConfig,
  instrumentation,
}: ServerContext): ModelRepository =>
  createModelRepository({
    store: createModelStore(createS3ObjectStore(toS3Options(settings)), {
      trustedKeys: settings.EDGETIER_TRUSTED_KEYS,
    }),
    runtime: createIsolatedRuntime(settings.EDGETIER_REGION_ISOLATION, {
      onEvent: instrumentation.onEvent,
    }),
    operatorConfig,
    memoryBudgetBytes: settings.EDGETIER_REGION_MODEL_BUDGET_BYTES,
    staleVersionIdleMs: settings.EDGETIER_REGION_LEFTOVER_IDLE_MS,
    onEvent: instrumentation.onRepositoryEvent,
  });

function createTracedExecutor({ clock, tracer, instrumentation, log }: ServerContext): Executor {
  const recordBatchSpans = createBatchSpanRecorder(tracer);
  return createExecutor({
    clock,
    onRun(run) {
      instrumentation.onRun(run);
      recordBatchSpans(run);
    },
    onUnbatchable: ({ tier, problem }) => log({ event: "session_unbatchable", ...tier, problem }),
  });
}

async function createApp(
  { settings, operatorConfig, instrumentation, clock, tracer, log }: ServerContext,
  components: Pick<RegionAppDependencies, "repository" | "executor" | "lifecycle">,
): Promise<ReturnType<typeof createRegionApp>> {
  return createRegionApp({
    ...components,
    operatorConfig,
    version: packageJson.version,
    ...(settings.EDGETIER_REGION_SHARED_RUNS === "on"
      ? { coalescer: createRequestCoalescer(clock) }
      : {}),
    authentication: await createAuthentication(settings, log),
    concurrencyLimiter: createConcurrencyLimiter(settings.EDGETIER_REGION_MAX_PENDING),
    statistics: instrumentation.statistics,
    metrics: instrumentation.metrics,
    maxBodyBytes: settings.EDGETIER_REGION_MAX_BODY_BYTES,
    maxRows: settings.EDGETIER_REGION_MAX_ROWS,
    onOutcome: instrumentation.onOutcome,
    clock,
    tracer,
    onResponse(response) {
      instrumentation.onResponse(response);
      if (settings.EDGETIER_REGION_ACCESS_LOG === "on") log({ event: "request", ...response });
    },
    onRequestFailed: log,
  });
}

async function readModelsConfig(settings: RegionSettings): Promise<OperatorConfig> {
  const { allModels, ...file } = await readModelsFile(settings.EDGETIER_REGION_MODELS);
  return {
    ...file,
    allModels: settings.EDGETIER_REGION_PRELOAD.all ? { ...allModels, preload: true } : allModels,
    defaults: {
      instances: settings.EDGETIER_REGION_INSTANCES,
      intraOpThreads: settings.EDGETIER_REGION_THREADS,
      batching: batchingDefaultsOf(settings),
    },
  };
}

function scheduleRepeatedly(work: () => Promise<void>, afterMs: number): void {
  systemClock.setTimer(() => void work().finally(() => scheduleRepeatedly(work, afterMs)), afterMs);
}

interface ShutdownDependencies {
  readonly server: RegionServer;
  readonly repository: ModelRepository;
  readonly tracer: Tracer;
  readonly log: Log;
}

function stopOnSignal({ server, repository, tracer, log }: ShutdownDependencies): void {
  const stop = async (signal: string) => {
    log({ event: "draining", signal });
    const complete = await server.stop();
    await tracer.flush();
    await repository.dispose(); // Exiting during a run would abort the process.
    log({ event: "stopped", complete });
    process.exit(complete ? 0 : 1);
  };
  process.once("SIGTERM", stop).once("SIGINT", stop);
}

main().catch((thrown: unknown) => {
  const error = asEdgeTierError(thrown);
  process.stderr.write(
    `${error === thrown ? error.message : processErrors.componentFailed("region server", String(thrown)).message}\n`,
  );
  process.exit(1);
});
