// Tests keys and limits on the running system: the Worker in workerd, the command line, OpenAI's client, and a Redis that can
// be frozen.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI, { AuthenticationError, NotFoundError } from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalSystem, startLocalSystem } from "../../src/cli/local/system.ts";
import { runEdgetier } from "../support/edgetier-command.ts";
import { hasRedisServer } from "../support/redis.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import {
  AUDIENCE,
  ISSUER,
  type TestApiKey,
  createTestApiKey,
  createTestIssuer,
  type TestIssuer,
  createValidClaims,
} from "../support/test-credentials.ts";
import { startTestHttpServer, type TestHttpServer } from "../support/test-http-server.ts";

const REDIS_TIMEOUT_MS = 500;
const LIMIT = { requests: 4, windowSeconds: 3_600 };
const TEXT = "how do i freeze my account";

let folder: string;
let system: LocalSystem;
let redis: TcpProxy;
let issuer: TestIssuer;
let issuersKeys: TestHttpServer;
let jwksRequests = 0;
let [free, limited, limitedToo]: TestApiKey[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-e2e-"));
  redis = await startTcpProxy();
  issuer = await createTestIssuer("ES256");
  issuersKeys = await startTestHttpServer((_, response) => {
    jwksRequests++;
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify(issuer.jwks));
  });
  [free, limited, limitedToo] = [
    await createTestApiKey({ id: "free" }),
    await createTestApiKey({ id: "limited", rateLimit: LIMIT }),
    await createTestApiKey({ id: "limited too", rateLimit: LIMIT }),
  ];
  system = await startLocalSystem({
    stateFolder: folder,
    withRegion: false,
    edgeVariables: {
      EDGETIER_API_KEYS: JSON.stringify([free, limited, limitedToo].map((one) => one?.entry)),
      EDGETIER_JWT_ISSUER: ISSUER,
      EDGETIER_JWT_AUDIENCE: AUDIENCE,
      EDGETIER_JWT_ALGORITHM: "ES256",
      EDGETIER_JWT_JWKS_URL: `${issuersKeys.url}/keys`,
      EDGETIER_REDIS_TIMEOUT_MS: String(REDIS_TIMEOUT_MS),
      ...(hasRedisServer ? { EDGETIER_REDIS_REST_URL: redis.url } : {}),
    },
  });
  redis.target = system.urls.redis ?? "";
});
afterAll(async () => {
  await system?.stop();
  await redis?.close();
  await issuersKeys?.stop();
  await rm(folder, { recursive: true, force: true });
});

async function predict(key: { readonly key: string } | undefined): Promise<Response> {
  const response = await fetch(
    `${system.urls.edge}/v1/models/intent/predict?input=${encodeURIComponent(TEXT)}`,
    { headers: key === undefined ? {} : { authorization: `Bearer ${key.key}` } },
  );
  await response.text();
  return response;
}

it("answers requests with a key, of every client", async () => {
  expect((await predict(undefined)).status).toBe(401);
  expect((await predict(await createTestApiKey())).status).toBe(401);
  expect((await predict(free)).status).toBe(200);
  const args = ["predict", TEXT, "--model", "intent", "--url", system.urls.edge, "--json"];
  expect(await runEdgetier(args, { EDGETIER_API_KEY: free?.key ?? "" })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('"label"'),
  });
  const refused = await runEdgetier(args);
  expect({ code: refused.code, error: JSON.parse(refused.stderr) }).toMatchObject({
    code: 1,
    error: { code: "missing_credential" },
  });
  const embed = (apiKey: string) =>
    new OpenAI({ baseURL: `${system.urls.edge}/v1`, apiKey, maxRetries: 0 }).embeddings.create({
      model: "none",
      input: "x",
    });
  await expect(embed(free?.key ?? "")).rejects.toThrow(NotFoundError);
  await expect(embed("sk-none")).rejects.toThrow(AuthenticationError);
  expect((await fetch(`${system.urls.edge}/v2/health/ready`)).status).toBe(200);
});

it("accepts tokens of its issuer, and fetches its keys once, even for forged tokens", async () => {
  const forger = await createTestIssuer("ES256");
  const claims = createValidClaims(Date.now());
  const forged = await Promise.all(
    Array.from({ length: 40 }, (_, count) => forger.sign(claims, { kid: `made up ${count}` })),
  );
  const statuses = await Promise.all(
    [...forged, await issuer.sign(claims)].map(async (key) => (await predict({ key })).status),
  );
  expect(statuses).toEqual([...forged.map(() => 401), 200]);
  expect(jwksRequests).toBe(1);
});

describe.skipIf(!hasRedisServer)("with Redis (needs a redis-server on the PATH)", () => {
  it("counts requests there, and rejects with the time of the next one", async () => {
    const statuses = [];
    for (let count = 0; count < LIMIT.requests; count++)
      statuses.push((await predict(limited)).status);
    expect(statuses).toEqual([200, 200, 200, 200]);
    const over = await predict(limited);
    expect(over.status).toBe(429);
    expect(over.headers.get("retry-after")).toMatch(/^(900|89\d)$/);
    expect(over.headers.get("ratelimit-policy")).toBe('"key";q=4;w=3600');
    expect((await predict(free)).status).toBe(200);
  });

  it("costs one time-out when Redis is frozen, and fails no request that the limit allows", async () => {
    redis.behavior = "hangs";
    const took: number[] = [];
    for (let count = 0; count < LIMIT.requests; count++) {
      const startedAtMs = performance.now();
      expect((await predict(limitedToo)).status).toBe(200);
      took.push(Math.round(performance.now() - startedAtMs));
    }
    console.log(`with a frozen Redis: ${took.join(", ")} ms`);
    expect((await predict(limitedToo)).status).toBe(429);
    redis.behavior = "forwards";
    expect(took.filter((ms) => ms >= 2 * REDIS_TIMEOUT_MS + 500)).toEqual([]);
  });
});
