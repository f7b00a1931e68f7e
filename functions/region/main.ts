#!/usr/bin/env node
// The region server: builds its parts from EDGETIER_* variables, serves, and drains on SIGTERM or SIGINT.

import { asEdgeTierError, errors } from "../../src/core/errors.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { s3OptionsOf } from "../../src/registry/s3-config.ts";
import { createModelStore } from "../../src/registry/store.ts";
import { createRegionApp } from "../../src/region/server/app.ts";
import { createLifecycle } from "../../src/region/server/lifecycle.ts";
import { createModelRepository, type ModelRepository } from "../../src/region/server/model-repository.ts";
import { startRegionServer, type RegionServer } from "../../src/region/server/server.ts";
import { createThreadedNativeRuntime } from "../../src/runtime/native/threaded-runtime.ts";
import packageJson from "../../package.json" with { type: "json" };
import { chooseExecutor } from "./choose-executor.ts";
import { readRegionSettings } from "./settings.ts";

/** One JSON object a line; an error becomes its message, and its cause's. */
function log(event: object): void {
  const line = JSON.stringify({ time: new Date().toISOString(), ...event }, (_key, value: unknown) =>
    value instanceof Error ? [value.message, value.cause].filter((part) => part !== undefined).map(String).join(" Cause: ") : value,
  );
  process.stdout.write(`${line}\n`);
}

async function main(): Promise<void> {
  const settings = readRegionSettings(process.env);
  const store = createModelStore(createS3ObjectStore(s3OptionsOf(settings)));
  const runtime = createThreadedNativeRuntime({ intraOpThreads: settings.EDGETIER_REGION_THREADS });
  const repository = createModelRepository({ store, runtime, onEvent: log });
  const executor = chooseExecutor(settings, log);
  const lifecycle = createLifecycle();
  const app = createRegionApp({
    repository,
    executor,
    lifecycle,
    version: packageJson.version,
    maxBodyBytes: settings.EDGETIER_REGION_MAX_BODY_BYTES,
    maxRows: settings.EDGETIER_REGION_MAX_ROWS,
    onFailure: log,
  });
  const server = await startRegionServer({
    fetch: app.fetch,
    lifecycle,
    host: settings.EDGETIER_REGION_HOST,
    port: settings.EDGETIER_REGION_PORT,
    drainTimes: { lingerMs: settings.EDGETIER_DRAIN_LINGER_MS, timeoutMs: settings.EDGETIER_DRAIN_TIMEOUT_MS },
  });
  stopOnSignal(server, repository);
  log({ event: "listening", url: server.url });

  // One that cannot be loaded is logged, and tried again when it is asked for: it must not keep the others from serving.
  await Promise.allSettled(settings.EDGETIER_REGION_PRELOAD.map((ref) => repository.acquire(ref)));
  lifecycle.start();
  log({ event: "ready" });
}

function stopOnSignal(server: RegionServer, repository: ModelRepository): void {
  const stop = async (signal: string) => {
    log({ event: "draining", signal });
    const complete = await server.stop();
    await repository.dispose(); // an exit in the middle of a run would abort the process
    log({ event: "stopped", complete });
    process.exit(complete ? 0 : 1);
  };
  process.once("SIGTERM", stop).once("SIGINT", stop);
}

main().catch((thrown: unknown) => {
  const error = asEdgeTierError(thrown);
  process.stderr.write(`${error === thrown ? error.message : errors.componentFailed("region server", String(thrown)).message}\n`);
  process.exit(1);
});
