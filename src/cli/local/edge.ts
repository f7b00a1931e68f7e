// Local edge: runs wrangler's development server in this process, with the project's wrangler.toml.

import { reasonOf } from "../../core/errors.ts";
import { processErrors } from "../../core/process-errors.ts";
import { LOOPBACK } from "./defaults.ts";
import { watchLiveness, type LocalService } from "./local-service.ts";

/** Disables telemetry and the lookup of Cloudflare's location data, and prints only errors. */
const QUIET_ENVIRONMENT = {
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_LOG: "error",
  WRANGLER_WRITE_LOGS: "false",
} as const;

export interface EdgeOptions {
  /** Path of wrangler.toml. */
  readonly config: string;
  readonly port: number;
  readonly stateFolder: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly onLine: (line: string) => void;
}

/** Starts the edge. @throws component_failed, for example for a Worker that cannot be bundled */
export async function startLocalEdge({
  config,
  port,
  stateFolder,
  variables,
  onLine,
}: EdgeOptions): Promise<LocalService> {
  Object.assign(process.env, QUIET_ENVIRONMENT); // wrangler reads them on import
  const { unstable_DevEnv: DevEnv } = await import("wrangler");
  const environment = new DevEnv();
  const stopped = new AbortController();
  try {
    const worker = environment.startWorker({
      config,
      bindings: Object.fromEntries(
        Object.entries(variables).map(([name, value]) => [name, { type: "plain_text", value }]),
      ),
      build: { custom: { command: "" } }, // the engine is already built
      dev: {
        server: { hostname: LOOPBACK, port },
        inspector: false,
        watch: false,
        persist: stateFolder,
        structuredLogsHandler({
          level,
          message,
        }: {
          readonly level: string;
          readonly message: string;
        }) {
          if (level !== "debug") onLine(message);
        },
      },
    });
    const url = (await waitForAddress(worker, environment)).origin;
    await fetch(`${url}/v2/health/live`); // workerd compiles the engine at the first request
    return {
      name: "edge",
      url,
      died: watchLiveness(`${url}/v2/health/live`, stopped.signal),
      async stop() {
        stopped.abort();
        await environment.teardown();
      },
    };
  } catch (error) {
    await environment.teardown();
    throw processErrors.componentFailed("edge", rootCauseOf(error), error);
  }
}

interface StartedWorker {
  readonly url: Promise<URL>;
  readonly ready: Promise<void>;
}

/** Returns the Worker's address. Some start errors are reported only as an event. @throws the start error */
async function waitForAddress(
  starting: Promise<StartedWorker>,
  environment: NodeJS.EventEmitter,
): Promise<URL> {
  const failed = new Promise<never>((_, reject) => {
    environment.once("error", (event: { readonly cause?: unknown }) =>
      reject(event.cause ?? event),
    );
  });
  const address = starting.then(async (worker) => {
    await worker.ready;
    return await worker.url;
  });
  return await Promise.race([address, failed]);
}

/** Returns the reason of the innermost cause, because wrangler wraps errors in several layers. */
function rootCauseOf(error: unknown): string {
  return error instanceof Error && error.cause instanceof Error
    ? rootCauseOf(error.cause)
    : reasonOf(error);
}
