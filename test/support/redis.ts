// Detects whether a real redis-server is available. Tests of L2 need one.
import { spawnSync } from "node:child_process";

export const hasRedisServer = spawnSync("redis-server", ["--version"]).status === 0;

if (!hasRedisServer) console.warn("no redis-server on the PATH: tests of the L2 cache are skipped");
