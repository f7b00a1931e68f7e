// The local edge: wrangler's own development server, in this process, with the project's wrangler.toml.

import { errors, reasonOf } from "../../core/errors.ts";
import { LOOPBACK } from "./defaults.ts";
import { diesWhenSilent, type Part } from "./part.ts";

/** No telemetry, no look-up of Cloudflare's location data, and only errors on the terminal. */
const QUIET = { WRANGLER_SEND_METRICS: "false", CLOUDFLARE_CF_FETCH_ENABLED: "false", WRANGLER_LOG: "error", WRANGLER_WRITE_LOGS: "false" } as const;

export interface EdgeOptions {
  /** wrangler.toml */
  readonly config: string;
  readonly port: number;
  readonly stateFolder: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly onLine: (line: string) => void;
}

/** @throws component_failed, for example when the Worker cannot be bundled */
export async function startLocalEdge({ config, port, stateFolder, variables, onLine }: EdgeOptions): Promise<Part> {
  Object.assign(process.env, QUIET); // wrangler reads them while it is loaded
  const { unstable_startWorker: startWorker } = await import("wrangler");
  const worker = await startWorker({
    config,
    bindings: Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, { type: "plain_text", value }])),
    build: { custom: { command: "" } }, // the engine has been prepared
    dev: {
      server: { hostname: LOOPBACK, port },
      inspector: false,
      watch: false,
      persist: stateFolder,
      structuredLogsHandler: ({ message }: { readonly message: string }) => onLine(message),
    },
  });
  const stopped = new AbortController();
  try {
    const url = (await firstOf(worker)).origin;
    return {
      name: "edge",
      url,
      died: diesWhenSilent(`${url}/v2/health/live`, stopped.signal),
      async stop() {
        stopped.abort();
        await worker.dispose();
      },
    };
  } catch (error) {
    await worker.dispose();
    throw errors.componentFailed("edge", reasonOf(error), error);
  }
}

/** The Worker's address, or the error that keeps it from having one: a failed build only shows as an event. */
async function firstOf(worker: { readonly url: Promise<URL>; readonly ready: Promise<void>; readonly raw: NodeJS.EventEmitter }): Promise<URL> {
  const failed = new Promise<never>((_, reject) => {
    worker.raw.once("error", (event: { reason?: string; cause?: unknown }) => reject(new Error(`${event.reason ?? "error"}: ${reasonOf(event.cause)}`)));
  });
  await Promise.race([worker.ready, failed]);
  return await worker.url;
}
