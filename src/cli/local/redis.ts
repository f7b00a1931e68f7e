// The local L2: a real redis-server on a Unix socket, with Upstash's REST interface in front of it.

import { processErrors } from "../../core/process-errors.ts";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Child, bufferLines, startChild } from "./child.ts";
import { startListeningChild } from "./listening-child.ts";
import type { LocalService } from "./local-service.ts";

const READY_TIMEOUT_MS = 5_000;

export interface LocalRedis extends LocalService {
  /** For the REST interface; a new one each time. */
  readonly token: string;
}

/**
 * Nothing is kept: it is a cache.
 * @param options.port of the REST interface
 * @returns undefined where the machine has no redis-server. @throws component_failed
 */
export async function startLocalRedis(options: {
  readonly port: number;
  readonly onLine: (line: string) => void;
}): Promise<LocalRedis | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-redis-")); // short: a socket's path has at most 107 bytes
  const socket = join(folder, "redis.sock");
  const args = [
    "--port",
    "0",
    "--unixsocket",
    socket,
    "--unixsocketperm",
    "700",
    "--dir",
    folder,
    "--save",
    "",
    "--appendonly",
    "no",
    "--loglevel",
    "warning",
  ];
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
      args,
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

async function waitForRedis(socket: string, redis: Child): Promise<void> {
  const giveUpAt = Date.now() + READY_TIMEOUT_MS;
  while (!(await canConnect(socket))) {
    const died = await Promise.race([redis.died, sleep(20)]);
    if (died !== undefined) throw processErrors.componentFailed("Redis", died);
    if (Date.now() > giveUpAt)
      throw processErrors.componentFailed(
        "Redis",
        `it did not listen within ${READY_TIMEOUT_MS / 1000} s`,
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
