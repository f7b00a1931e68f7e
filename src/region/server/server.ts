// Serves the region's app on a port, and stops it without losing an answer.

import { once } from "node:events";
import { createAdaptorServer } from "@hono/node-server";
import { reasonOf } from "../../core/errors.ts";
import { processErrors } from "../../core/process-errors.ts";
import type { DrainTimeouts, Lifecycle } from "./lifecycle.ts";

export interface RegionServerOptions {
  readonly fetch: (request: Request) => Response | Promise<Response>;
  readonly lifecycle: Lifecycle;
  readonly host: string;
  /** 0 selects any free port. */
  readonly port: number;
  readonly drainTimeouts: DrainTimeouts;
}

export interface RegionServer {
  readonly url: string;
  /** Drains and closes. @returns whether every request in flight was answered */
  stop(): Promise<boolean>;
}

/** Longer than proxies and clients keep idle connections, so that they close first and no request meets a closed one. */
const KEEP_ALIVE_MS = 75_000;
/** Time to send the last bytes after all answers are written. */
const CLOSE_GRACE_MS = 1_000;

/** @throws port_in_use, component_failed */
export async function startRegionServer(options: RegionServerOptions): Promise<RegionServer> {
  const { fetch, lifecycle, host, port, drainTimeouts } = options;
  const server = createAdaptorServer({ fetch, serverOptions: { keepAliveTimeout: KEEP_ALIVE_MS } });
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (error) {
    throw toStartError(error, port);
  }

  const address = server.address();
  const boundPort = typeof address === "object" && address !== null ? address.port : port;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${boundPort}`,
    async stop() {
      const complete = await lifecycle.drain(drainTimeouts);
      const closed = once(server, "close");
      server.close(); // Also closes idle connections.
      const closeTimer = setTimeout(
        () => "closeAllConnections" in server && server.closeAllConnections(),
        complete ? CLOSE_GRACE_MS : 0,
      );
      await closed;
      clearTimeout(closeTimer);
      return complete;
    },
  };
}

function toStartError(error: unknown, port: number): Error {
  const isPortInUse = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
  return isPortInUse
    ? processErrors.portInUse("region server", port, "EDGETIER_REGION_PORT")
    : processErrors.componentFailed("region server", reasonOf(error), error);
}
