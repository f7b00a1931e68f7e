// Puts the region's app on a port, and takes it off again without losing an answer.

import { processErrors } from "../../core/process-errors.ts";
import { once } from "node:events";
import { createAdaptorServer } from "@hono/node-server";
import { reasonOf } from "../../core/errors.ts";
import type { DrainTimeouts, Lifecycle } from "./lifecycle.ts";

export interface RegionServerOptions {
  readonly fetch: (request: Request) => Response | Promise<Response>;
  readonly lifecycle: Lifecycle;
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly drainTimeouts: DrainTimeouts;
}

export interface RegionServer {
  readonly url: string;
  /** Drains and closes. @returns whether everything under way was answered. */
  stop(): Promise<boolean>;
}

/** Longer than proxies and clients keep idle connections, so that it is them who close: a request then never meets a closed one. */
const KEEP_ALIVE_MS = 75_000;
/** For the last bytes to leave, once all answers are written. */
const CLOSE_GRACE_MS = 1_000;

/** @throws port_in_use, component_failed */
export async function startRegionServer(options: RegionServerOptions): Promise<RegionServer> {
  const { fetch, lifecycle, host, port, drainTimeouts: drainTimes } = options;
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
      const complete = await lifecycle.drain(drainTimes);
      const closed = once(server, "close");
      server.close(); // closes idle connections too
      const cutOff = setTimeout(
        () => "closeAllConnections" in server && server.closeAllConnections(),
        complete ? CLOSE_GRACE_MS : 0,
      );
      await closed;
      clearTimeout(cutOff);
      return complete;
    },
  };
}

function toStartError(error: unknown, port: number): Error {
  const inUse = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
  return inUse
    ? processErrors.portInUse("region server", port, "EDGETIER_REGION_PORT")
    : processErrors.componentFailed("region server", reasonOf(error), error);
}
