#!/usr/bin/env node
// The region server: builds its parts from EDGETIER_* variables, serves, and drains on SIGTERM or SIGINT.

import { processErrors } from "../../src/core/process-errors.ts";
import { hostname } from "node:os";
import { systemClock } from "../../src/core/clock.ts";
import { asEdgeTierError } from "../../src/core/errors.ts";
import type { Tracer } from "../../src/core/tracing.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { toS3Options } from "../../src/registry/s3-config.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { createRegionApp } from "../../src/region/server/app.ts";
import { createLifecycle } from "../../src/region/server/lifecycle.ts";
import {
  createModelRepository,
  type ModelRepository,
} from "../../src/region/server/model-repository.ts";
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import { createConcurrencyLimiter } from "../../src/region/server/batching/concurrency-limiter.ts";
import { createPreciseClock } from "../../src/region/server/batching/precise-clock.ts";
import { createRequestCoalescer } from "../../src/region/server/request-coalescing.ts";
import { createBatchSpanRecorder } from "../../src/region/server/batch-spans.ts";
import { startRegionServer, type RegionServer } from "../../src/region/server/server.ts";
import type { OperatorConfig } from "../../src/region/server/operator-config.ts";
import { createConfiguredTracer } from "../../src/telemetry/trace-config.ts";
import { createIsolatedRuntime } from "../../src/runtime/native/isolated-runtime.ts";
import packageJson from "../../package.json" with { type: "json" };
import { createAuthentication } from "./authentication.ts";
import { createLog, type Log } from "./log.ts";
import { readModelsFile } from "./models-file.ts";
import { createInstrumentation } from "./instrumentation.ts";
import { batchingDefaultsOf, readRegionSettings, type RegionSettings } from "./settings.ts";

async function main(): Promise<void> {
  const settings = readRegionSettings(process.env);
  const log = createLog(settings);
  const config = await readModelsConfig(settings);
  const observers = createInstrumentation({ clock: systemClock, log });
  const clock = createPreciseClock();
  const tracer = createConfiguredTracer(settings, {
    resource: { "service.name": "edgetier-region", "host.name": hostname() },
    clock,
    onSpansDropped: observers.metrics.recordDroppedSpans,
    log,
  });
  const recordSpans = createBatchSpanRecorder(tracer);
  const repository = createModelRepository({
    store: createModelStore(createS3ObjectStore(toS3Options(settings)), {
      trustedKeys: settings.EDGETIER_TRUSTED_KEYS,
    }),
    runtime: createIsolatedRuntime(settings.EDGETIER_REGION_ISOLATION, {
      onEvent: observers.onEvent,
    }),
    operatorConfig: config,
    memoryBudgetBytes: settings.EDGETIER_REGION_MODEL_BUDGET_BYTES,
    staleVersionIdleMs: settings.EDGETIER_REGION_LEFTOVER_IDLE_MS,
    onEvent: observers.onRepositoryEvent,
  });
  const executor = createExecutor({
    clock,
    onRun(run) {
      observers.onRun(run);
      recordSpans(run);
    },
    onUnbatchable: ({ tier: of, problem }) => log({ event: "session_unbatchable", ...of, problem }),
  });
  const lifecycle = createLifecycle();
  observers.registerGauges({ executor, repository, lifecycle });
  const app = createRegionApp({
    repository,
    executor,
    lifecycle,
    operatorConfig: config,
    version: packageJson.version,
    ...(settings.EDGETIER_REGION_SHARED_RUNS === "on"
      ? { coalescer: createRequestCoalescer(clock) }
      : {}),
    authentication: await createAuthentication(settings, log),
    concurrencyLimiter: createConcurrencyLimiter(settings.EDGETIER_REGION_MAX_PENDING),
    statistics: observers.statistics,
    metrics: observers.metrics,
    maxBodyBytes: settings.EDGETIER_REGION_MAX_BODY_BYTES,
    maxRows: settings.EDGETIER_REGION_MAX_ROWS,
    onOutcome: observers.onOutcome,
    clock,
    tracer,
    onResponse(answer) {
      observers.onResponse(answer);
      if (settings.EDGETIER_REGION_ACCESS_LOG === "on") log({ event: "request", ...answer });
    },
    onRequestFailed: log,
  });
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

  // One that cannot be loaded is logged, and tried again when it is asked for: it must not keep the others from serving.
  const preload = () => repository.preload(settings.EDGETIER_REGION_PRELOAD.refs);
  await preload();
  lifecycle.start();
  log({ event: "ready" });
  if (settings.EDGETIER_REGION_POLL_MS > 0)
    scheduleRepeatedly(preload, settings.EDGETIER_REGION_POLL_MS);
}

async function readModelsConfig(settings: RegionSettings): Promise<OperatorConfig> {
  const { allModels: all, ...file } = await readModelsFile(settings.EDGETIER_REGION_MODELS);
  return {
    ...file,
    allModels: settings.EDGETIER_REGION_PRELOAD.all ? { ...all, preload: true } : all,
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
    await repository.dispose(); // an exit in the middle of a run would abort the process
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
