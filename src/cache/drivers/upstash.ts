// L2: a CacheStore in Upstash Redis over REST, shared by all isolates. Values travel as base64, since the REST interface
// carries JSON strings. Many keys go in one round trip. No retries and a hard time-out: a slow cache is worse than none.

import { Redis } from "@upstash/redis";
import { fromBase64, toBase64 } from "../../core/base64.ts";
import type { CacheStore } from "../cache-store.ts";

export interface UpstashOptions {
  readonly url: string;
  readonly token: string;
  /** For one look-up, which a client waits for. */
  readonly timeoutMs: number;
  /** For one write, which nobody waits for: it may be what opens an isolate's first connection. */
  readonly writeTimeoutMs?: number;
}

/** Other programs may use the same Redis. */
const KEY_PREFIX = "edgetier:";

export function createUpstashCache({
  url,
  token,
  timeoutMs,
  writeTimeoutMs = 1_000,
}: UpstashOptions): CacheStore {
  const within = (limitMs: number) =>
    new Redis({
      url,
      token,
      retry: { retries: 0 },
      signal: () => AbortSignal.timeout(limitMs),
      automaticDeserialization: false,
      responseEncoding: false, // values are base64 already
      enableTelemetry: false,
    });
  const [reader, writer] = [within(timeoutMs), within(writeTimeoutMs)];

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
