// Driver contracts: the contract suites of all drivers that run in the Worker, in workerd.
import { env } from "cloudflare:test";
import { describe, expect, inject, it } from "vitest";
import { createCdnCache, type HttpCache } from "../../src/cache/drivers/cdn.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { createUpstashCache } from "../../src/cache/drivers/upstash.ts";
import { createHashedKeyStore } from "../../src/cache/hashed-key-store.ts";
import { ManualClock, systemClock } from "../../src/core/clock.ts";
import { createIsolateRateLimiter } from "../../src/http/access/drivers/isolate-limiter.ts";
import { createRedisRateLimiter } from "../../src/http/access/drivers/redis-limiter.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { createR2ObjectStore } from "../../src/registry/drivers/r2.ts";
import { createS3FetchObjectStore } from "../../src/registry/drivers/s3-fetch.ts";
import { allAuthenticatorContracts } from "../contract/authenticators.ts";
import { cacheStoreContract } from "../contract/cache-store.ts";
import { messageSignatureContract } from "../contract/message-signature.ts";
import { modelStoreContract } from "../contract/model-store.ts";
import { rateLimiterContract } from "../contract/rate-limiter.ts";
import { runtimeContract } from "../contract/runtime.ts";
import bagOfTokens from "../fixtures/bag-of-tokens.onnx";
import externalData from "../fixtures/external-data.onnx";
import failsWhenRun from "../fixtures/fails-when-run.onnx";
import int8Matmul from "../fixtures/int8-matmul.onnx";
import int64Identity from "../fixtures/int64-identity.onnx";
import { createPrefixedStore } from "../support/prefixed-store.ts";
import { wasmRuntime } from "./full-engine.ts";

const fixtures: Readonly<Record<string, ArrayBuffer>> = {
  "bag-of-tokens.onnx": bagOfTokens,
  "external-data.onnx": externalData,
  "fails-when-run.onnx": failsWhenRun,
  "int64-identity.onnx": int64Identity,
  "int8-matmul.onnx": int8Matmul,
};

messageSignatureContract();

runtimeContract(
  "onnxruntime-web, in workerd",
  async () => wasmRuntime,
  async (name) => new Uint8Array(fixtures[name] ?? new ArrayBuffer()),
);

describe("the engine's memory", () => {
  it("does not grow over 2,000 runs, and is reported", async () => {
    const session = await wasmRuntime.createSession(new Uint8Array(int8Matmul));
    const run = () =>
      session.run({ x: { datatype: "UINT8", shape: [1, 3], data: Uint8Array.of(1, 2, 3) } });
    await run();
    const before = session.memoryBytes;
    for (let count = 0; count < 2000; count++) await run();
    expect(session.memoryBytes).toBe(before);
    expect(before).toBeGreaterThan(1_000_000);
    await session.dispose();
  });
});

modelStoreContract("memory, in workerd", async () => createMemoryObjectStore());
modelStoreContract("s3-fetch, in workerd", async () =>
  createPrefixedStore(createS3FetchObjectStore(inject("s3"))),
);
modelStoreContract("r2, in workerd", async () =>
  createPrefixedStore(createR2ObjectStore(env.MODELS)),
);

cacheStoreContract("lru, in workerd", async () => {
  const clock = new ManualClock();
  return {
    cache: createLruCache({ maxBytes: 1_000_000, clock }),
    pass: async (seconds) => clock.advance(seconds * 1000),
  };
});

const { default: cache } = globalThis.caches as unknown as { readonly default: HttpCache };
const sleepSeconds = (seconds: number) =>
  new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000));
cacheStoreContract("cdn, the platform's Cache API in workerd", async () => ({
  cache: createCdnCache({ cache, clock: systemClock, timeoutMs: 5_000 }),
  pass: sleepSeconds,
}));
cacheStoreContract("cdn, sealed, in workerd", async () => ({
  cache: createHashedKeyStore(createCdnCache({ cache, clock: systemClock, timeoutMs: 5_000 })),
  pass: sleepSeconds,
}));
allAuthenticatorContracts(", in workerd");
rateLimiterContract("isolate, in workerd", async (clock) => createIsolateRateLimiter(clock));

const redis = inject("redis");
describe.skipIf(redis === null)("with Redis (needs a redis-server on the PATH)", () => {
  cacheStoreContract("upstash, in workerd", async () => ({
    cache: createUpstashCache({
      url: redis?.url ?? "",
      token: redis?.token ?? "",
      timeoutMs: 1000,
    }),
    pass: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
  }));
  rateLimiterContract("redis, in workerd", async (clock) =>
    createRedisRateLimiter({
      url: redis?.url ?? "",
      token: redis?.token ?? "",
      timeoutMs: 5_000,
      clock,
    }),
  );
});
