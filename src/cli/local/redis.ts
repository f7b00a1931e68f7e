// Local L2 cache: starts a redis-server on a Unix socket and Upstash's REST interface in front of it.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { processErrors } from "../../core/process-errors.ts";
import { type Child, bufferLines, startChild } from "./child.ts";
import { startListeningChild } from "./listening-child.ts";
import type { LocalService } from "./local-service.ts";

const READY_TIMEOUT_MS = 5_000;

export interface LocalRedis extends LocalService {
  /** Token for the REST interface, new at every start. */
  readonly token: string;
}

/**
 * Starts the cache, which persists nothing. Returns undefined if the machine has no redis-server.
 * @param options.port port of the REST interface
 * @throws component_failed
 */
export async function startLocalRedis(options: {
  readonly port: number;
  readonly onLine: (line: string) => void;
}): Promise<LocalRedis | undefined> {
  // The path is short, because a socket's path has at most 107 bytes.
  const folder = await mkdtemp(join(tmpdir(), "edgetier-redis-"));
  const socket = join(folder, "redis.sock");
  const started: Child[] = [];
  const output = bufferLines(options.onLine);
  const stop = async () => {
    for (const child of started.toReversed()) await child.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const redis = await startChild({
      name: "Redis",
      command: "redis-server",
      args: redisArgs(folder, socket),
      onLine: output.onLine,
    });
    if (redis === undefined) {
      await stop();
      return undefined;
    }
    started.push(redis);
    await waitForRedis(socket, redis);
    const token = randomUUID();
    const rest = await startListeningChild({
      name: "Redis REST interface",
      file: join(import.meta.dirname, "redis-rest.ts"),
      environment: { PORT: `${options.port}`, URS_TOKEN: token, REDIS_URL: socket },
      onLine: output.onLine,
    });
    started.push(rest);
    output.discard();
    return {
      name: "L2 cache (Redis)",
      url: rest.url,
      token,
      died: Promise.race([redis.died, rest.died]),
      stop,
    };
  } catch (error) {
    output.flush();
    await stop();
    throw error;
  }
}

const redisArgs = (folder: string, socket: string): string[] =>
  Object.entries({
    "--port": "0",
    "--unixsocket": socket,
    "--unixsocketperm": "700",
    "--dir": folder,
    "--save": "",
    "--appendonly": "no",
    "--loglevel": "warning",
  }).flat();

async function waitForRedis(socket: string, redis: Child): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS;
  while (!(await canConnect(socket))) {
    const died = await Promise.race([redis.died, sleep(20)]);
    if (died !== undefined) throw processErrors.componentFailed("Redis", died);
    if (Date.now() > deadline)
      throw processErrors.componentFailed(
        "Redis",
        `no connection within ${READY_TIMEOUT_MS / 1000} s`,
      );
  }
}

async function canConnect(socket: string): Promise<boolean> {
  const connection = connect(socket);
  try {
    await once(connection, "connect");
    return true;
  } catch {
    return false;
  } finally {
    connection.destroy();
  }
}
