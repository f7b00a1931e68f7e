// L2 layer: a CacheStore in Upstash Redis over REST, shared by all isolates. Values travel as base64, because the REST
// interface carries JSON strings. All keys share one round trip. There are no retries, and the timeout is hard,
// because a slow cache is worse than none.

import { Redis } from "@upstash/redis";
import { fromBase64, toBase64 } from "../../core/base64.ts";
import type { CacheStore } from "../cache-store.ts";

export interface UpstashOptions {
  readonly url: string;
  readonly token: string;
  /** Timeout of one lookup, which a client awaits. */
  readonly timeoutMs: number;
  /** Timeout of one write. It is longer, because no client waits and a write may open the isolate's first connection. */
  readonly writeTimeoutMs?: number;
}

/** Separates EdgeTier's keys from those of other programs in the same Redis. */
const KEY_PREFIX = "edgetier:";

export function createUpstashCache({
  url,
  token,
  timeoutMs,
  writeTimeoutMs = 1_000,
}: UpstashOptions): CacheStore {
  const createClient = (limitMs: number) =>
    new Redis({
      url,
      token,
      retry: { retries: 0 },
      signal: () => AbortSignal.timeout(limitMs),
      automaticDeserialization: false,
      responseEncoding: false, // values are base64 already
      enableTelemetry: false,
    });
  const [reader, writer] = [createClient(timeoutMs), createClient(writeTimeoutMs)];

  return {
    async get(keys) {
      if (keys.length === 0) return [];
      const values = await reader.mget<unknown[]>(...keys.map((key) => KEY_PREFIX + key));
      return keys.map((_, index) => {
        const value = values[index];
        return typeof value === "string" ? fromBase64(value) : undefined;
      });
    },
    async set(entries, ttlSeconds) {
      if (entries.length === 0) return;
      const pipeline = writer.pipeline();
      for (const { key, value } of entries)
        pipeline.set(KEY_PREFIX + key, toBase64(value), { ex: ttlSeconds });
      await pipeline.exec();
    },
  };
}
