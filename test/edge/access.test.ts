// Access: credentials, scopes, rate limits and CORS of the whole app in workerd. One file, because all tests share the keys and
// the token issuer.
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { ManualClock } from "../../src/core/clock.ts";
import type { AccessPolicy } from "../../src/http/access/access-policy.ts";
import type { Scope } from "../../src/http/access/authenticator.ts";
import { createApiKeyAuthenticator } from "../../src/http/access/drivers/api-key-authenticator.ts";
import { createIsolateRateLimiter } from "../../src/http/access/drivers/isolate-limiter.ts";
import { createRemoteKeySet } from "../../src/http/access/drivers/jwks.ts";
import { createJwtAuthenticator } from "../../src/http/access/drivers/jwt-authenticator.ts";
import { scopeRequirementOf } from "../../src/http/access/route-scopes.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import {
  AUDIENCE,
  ISSUER,
  type TestApiKey,
  createTestApiKey,
  createTestIssuer,
  type TestIssuer,
  createValidClaims,
} from "../support/test-credentials.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";
import { readProblem } from "./read-problem.ts";

const graph = new Uint8Array(toy);
const JWKS_URL = "https://issuer.test/keys";
const PREDICT = "/v1/models/toy/predict?input=yes";

let edge: EdgeUnderTest;
let issuer: TestIssuer;
let keys: Readonly<
  Record<"both" | "predict" | "metadata" | "admin" | "onlyOther" | "otherTenant", TestApiKey>
>;
let jwksFetches: number;
beforeEach(async () => {
  issuer = await createTestIssuer("ES256");
  jwksFetches = 0;
  const key = (id: string, scopes: readonly Scope[], fields: object = {}) =>
    createTestApiKey({ id, scopes, ...fields });
  keys = {
    both: await key("both", ["predict", "metadata"]),
    predict: await key("predict", ["predict"]),
    metadata: await key("metadata", ["metadata"]),
    admin: await key("admin", ["admin"]),
    onlyOther: await key("onlyOther", ["predict", "metadata"], { models: ["other"] }),
    otherTenant: await key("otherTenant", ["predict"], { tenant: "other" }),
  };
  edge = await startEdgeUnderTest(graph, fullDeployment, { createAccess: protectedAccess });
});

function protectedAccess(clock: ManualClock): AccessPolicy {
  const fetchKeys = async () => {
    jwksFetches++;
    return Response.json(issuer.jwks);
  };
  const jwtAuthenticator = createJwtAuthenticator({
    issuer: ISSUER,
    audience: AUDIENCE,
    algorithm: "ES256",
    keys: createRemoteKeySet({ url: JWKS_URL, algorithm: "ES256", clock, fetch: fetchKeys }),
    clock,
    tenantClaim: "tenant",
    scopeClaim: "scope",
  });
  return {
    authenticators: [
      createApiKeyAuthenticator(
        Object.values(keys).map(({ entry }) => entry),
        clock,
      ),
      jwtAuthenticator,
    ],
  };
}

const bearer = (credential: string) => ({ authorization: `Bearer ${credential}` });
const get = async (path: string, headers: Record<string, string> = {}) =>
  await edge.app.request(path, { headers });
const post = async (path: string, body: unknown, headers: Record<string, string> = {}) =>
  await edge.app.request(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
const getStatus = async (path: string, { key }: TestApiKey) =>
  (await get(path, bearer(key))).status;

describe("the app with credentials", () => {
  it("requires the route's scope, and names a missing one", async () => {
    expect(await getStatus(PREDICT, keys.both)).toBe(200);
    expect(await getStatus(PREDICT, keys.predict)).toBe(200);
    expect(await getStatus("/v1/models", keys.metadata)).toBe(200);
    const rejection = await get(PREDICT, bearer(keys.metadata.key));
    expect(rejection.headers.get("www-authenticate")).toBe(
      'Bearer realm="edgetier", error="insufficient_scope", scope="predict"',
    );
    expect(await readProblem(rejection)).toMatchObject({ status: 403, code: "missing_scope" });
    expect(await getStatus("/v1/models", keys.predict)).toBe(403);
    expect(await getStatus("/metrics", keys.both)).toBe(403);
    expect(await getStatus("/metrics", keys.admin)).toBe(200);
  });

  it("requires a credential on every route except health and the API description", async () => {
    const paths = [...new Set(edge.app.routes.map(({ path }) => path))]
      .filter((path) => !path.endsWith("*"))
      .map((path) =>
        path
          .replace(/:model/, "toy")
          .replace(":version", "1")
          .replace(/:action\{[^|}]*\|?.*\}$/, "stats"),
      );
    const open: string[] = [];
    for (const path of paths) {
      expect({ path, ...scopeRequirementOf(path) }).toMatchObject({ path, isKnownPath: true }); // a new route needs an entry in route-scopes.ts
      for (const method of ["GET", "POST", "QUERY", "DELETE"]) {
        if ((await edge.app.request(path, { method })).status !== 401) open.push(path);
      }
    }
    expect([...new Set(open)].toSorted()).toEqual([
      "/",
      "/docs",
      "/openapi.json",
      "/v2/health/live",
      "/v2/health/ready",
    ]);
    expect(paths.length).toBeGreaterThan(12);
    expect((await get("/nothing")).status).toBe(401);
    expect((await get("/v1/models/toy/%70redict?input=yes")).status).toBe(401);
    expect(await getStatus("/v1/models/toy/%70redict?input=yes", keys.metadata)).toBe(403);
  });
});

describe("the app with credentials rejects", () => {
  it("challenges by RFC 6750, without an error code if the credential is missing", async () => {
    const without = await get(PREDICT);
    expect(without.headers.get("www-authenticate")).toBe('Bearer realm="edgetier"');
    expect(await readProblem(without)).toMatchObject({ status: 401, code: "missing_credential" });
    for (const authorization of [
      "Basic abc",
      "Bearer",
      "Bearer a b",
      `Bearer ${keys.both.key}, Bearer ${keys.both.key}`,
      keys.both.key,
    ]) {
      expect((await get(PREDICT, { authorization })).headers.get("www-authenticate")).toBe(
        'Bearer realm="edgetier"',
      );
    }
    for (const path of [
      `${PREDICT}&access_token=${keys.both.key}`,
      `${PREDICT}&key=${keys.both.key}`,
    ])
      expect((await get(path)).status).toBe(401);
    expect((await get(PREDICT, { "x-api-key": keys.both.key })).status).toBe(401);
    const cut = await get(PREDICT, bearer(keys.both.key.slice(0, -1)));
    const { detail } = await readProblem(cut);
    expect(cut.headers.get("www-authenticate")).toBe(
      `Bearer realm="edgetier", error="invalid_token", error_description="${String(detail)}"`,
    );
    expect((await get(PREDICT, { authorization: `bearer   ${keys.both.key}` })).status).toBe(200);
  });

  it("rejects in the format of each protocol, and keeps rejections out of caches", async () => {
    const infer = await post("/v2/models/toy/infer", {});
    expect({ status: infer.status, body: await infer.json() }).toMatchObject({
      status: 401,
      body: { error: expect.any(String) },
    });
    const embeddings = await post("/v1/embeddings", {});
    expect(await embeddings.json()).toMatchObject({
      error: { code: "missing_credential", message: expect.any(String) },
      code: "missing_credential",
    });
    for (const { headers } of [infer, embeddings])
      expect(headers.get("cache-control")).toBe("no-store");
  });
});

describe("responses with a credential", () => {
  it("restricts each key to its models on every route", async () => {
    await publishToyModel(edge.store, graph, { model: "other" });
    const headers = bearer(keys.onlyOther.key);
    expect((await get("/v1/models/other/predict?input=yes", headers)).status).toBe(200);
    const rejections = [
      await get(PREDICT, headers),
      await get("/v1/models/toy@1/predict?input=yes", headers),
      await get("/v1/models/toy", headers),
      await get("/v2/models/toy", headers),
      await get("/v2/models/toy/ready", headers),
      await post("/v2/models/toy/infer", {}, headers),
      await post("/v2/models/toy/versions/1/infer", {}, headers),
      await post("/v1/embeddings", { model: "toy", input: "yes" }, headers),
    ];
    for (const { status, url } of rejections) expect(status, url).toBe(403);
    expect(await (await get("/v1/models", headers)).json()).toMatchObject({
      models: [{ model: "other" }],
    });
    expect(await (await get("/v1/models", bearer(keys.metadata.key))).json()).toMatchObject({
      models: [{ model: "other" }, { model: "toy" }],
    });
  });

  it("keeps responses out of shared caches", async () => {
    const answer = await get(PREDICT, bearer(keys.both.key));
    expect(answer.headers.get("cache-control")).toBe("private, no-cache");
    expect(answer.headers.get("vary")).toContain("authorization");
    expect(answer.headers.has("cache-tag")).toBe(false);
    expect(answer.headers.get("etag")).toMatch(/^"/);
  });
});

describe("JWTs", () => {
  const signToken = (claims: object = {}) =>
    issuer.sign(createValidClaims(edge.clock.now(), claims));

  it("are accepted until they expire, with one fetch of the issuer's keys", async () => {
    const token = await signToken();
    for (let count = 0; count < 5; count++)
      expect((await get(PREDICT, bearer(token))).status).toBe(200);
    expect(jwksFetches).toBe(1);
    edge.clock.advance(90_000);
    const late = await get(PREDICT, bearer(token));
    expect(await readProblem(late)).toMatchObject({ status: 401, code: "invalid_credential" });
  });

  it("cause at most one fetch if they are forged, and none to a URL of their own", async () => {
    const fetchSpy = vi.spyOn(globalThis, "fetch");
    const forger = await createTestIssuer("ES256");
    for (let count = 0; count < 100; count++) {
      const token = await forger.sign(createValidClaims(edge.clock.now()), {
        kid: `made up ${count}`,
        jku: "https://forger.test/keys",
        x5u: "https://forger.test/chain",
      });
      expect((await get(PREDICT, bearer(token))).status).toBe(401);
    }
    expect(jwksFetches).toBe(1);
    expect(fetchSpy).not.toHaveBeenCalled();
    fetchSpy.mockRestore();
  });

  it("grant only their own scopes", async () => {
    const token = await signToken({ scope: "metadata" });
    expect((await get("/v1/models", bearer(token))).status).toBe(200);
    expect((await get(PREDICT, bearer(token))).status).toBe(403);
    expect(
      (await get("/metrics", bearer(await signToken({ scope: "predict metadata" })))).status,
    ).toBe(403);
  });
});

describe("the app without credentials", () => {
  it("is public except for administration, with any credential", async () => {
    edge = await startEdgeUnderTest(graph, fullDeployment);
    for (const headers of [{}, bearer("sk-dummy"), bearer(keys.admin.key)]) {
      expect((await get(PREDICT, headers)).status).toBe(200);
      expect((await get("/v1/models", headers)).status).toBe(200);
      expect((await get("/metrics", headers)).status).toBe(401);
      expect((await get("/v1/admin/anything", headers)).status).toBe(401);
      expect((await get("/nothing", headers)).status).toBe(404);
    }
    expect((await get(PREDICT)).headers.get("cache-control")).toBe("public, no-cache");
  });
});

const limited = (clock: ManualClock): AccessPolicy => ({
  ...protectedAccess(clock),
  rateLimits: {
    limiter: createIsolateRateLimiter(clock),
    perPrincipal: { requests: 3, windowSeconds: 60 },
    perAddress: { requests: 2, windowSeconds: 10 },
    addressHeader: "cf-connecting-ip",
  },
});

describe("rate limits", () => {
  beforeEach(async () => {
    edge = await startEdgeUnderTest(graph, fullDeployment, { createAccess: limited });
  });

  it("apply per key, and expose the remaining requests", async () => {
    const take = () => get(PREDICT, bearer(keys.both.key));
    const first = await take();
    expect(first.status).toBe(200);
    expect(first.headers.get("ratelimit-policy")).toBe('"key";q=3;w=60');
    expect(first.headers.get("ratelimit")).toBe('"key";r=2;t=20');
    await take();
    await take();
    const over = await take();
    expect(over.headers.get("ratelimit")).toBe('"key";r=0;t=60');
    expect(over.headers.get("retry-after")).toBe("20");
    expect(await readProblem(over)).toMatchObject({
      status: 429,
      code: "rate_limited",
      retryable: true,
    });
    expect((await get(PREDICT, bearer(keys.predict.key))).status).toBe(200);
    edge.clock.advance(20_000);
    expect((await take()).status).toBe(200);
  });

  it("apply per address without a valid credential, and not to health", async () => {
    const from = (address: string, headers: Record<string, string> = {}) =>
      get(PREDICT, { "cf-connecting-ip": address, ...headers });
    expect((await from("203.0.113.7")).status).toBe(401);
    expect((await from("203.0.113.7", bearer(`${keys.both.key}x`))).status).toBe(401);
    expect((await from("203.0.113.7")).status).toBe(429);
    expect((await from("203.0.113.8")).status).toBe(401);
    expect((await from("203.0.113.7", bearer(keys.both.key))).status).toBe(200);
    expect((await from("2001:db8::1")).status).toBe(401);
    expect((await from("2001:db8::2")).status).toBe(401);
    expect((await from("2001:db8::3")).status).toBe(429);
    for (let count = 0; count < 5; count++)
      expect((await get("/v2/health/live", { "cf-connecting-ip": "203.0.113.7" })).status).toBe(
        200,
      );
  });
});

describe("rate limits with special keys and headers", () => {
  beforeEach(async () => {
    edge = await startEdgeUnderTest(graph, fullDeployment, { createAccess: limited });
  });

  it("ignore headers that a client can set", async () => {
    for (let count = 0; count < 5; count++) {
      expect(
        (
          await get(PREDICT, {
            "cf-connecting-ip": "203.0.113.9",
            "x-forwarded-for": `10.0.0.${count}`,
          })
        ).status,
      ).toBe(count < 2 ? 401 : 429);
    }
  });

  it("of a key override the deployment's", async () => {
    const own = await createTestApiKey({ rateLimit: { requests: 1, windowSeconds: 5 } });
    edge = await startEdgeUnderTest(graph, fullDeployment, {
      createAccess: (clock) => ({
        ...limited(clock),
        authenticators: [createApiKeyAuthenticator([own.entry], clock)],
      }),
    });
    expect(await getStatus(PREDICT, own)).toBe(200);
    expect(await getStatus(PREDICT, own)).toBe(429);
    expect((await get("/v2/models/toy", bearer(own.key))).status).toBe(429);
  });
});

const preflight = (origin: string) =>
  edge.app.request(PREDICT, {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization",
    },
  });

describe("browsers", () => {
  const withOrigins = async (...corsOrigins: string[]) => {
    edge = await startEdgeUnderTest(graph, fullDeployment, {
      createAccess: (clock) => ({ ...protectedAccess(clock), corsOrigins }),
    });
  };

  it("get no CORS headers by default", async () => {
    const answer = await get(PREDICT, { origin: "https://app.test", ...bearer(keys.both.key) });
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual(
      [],
    );
    expect((await preflight("https://app.test")).status).toBe(401);
  });

  it("get CORS headers for the configured origins only", async () => {
    await withOrigins("https://app.test", "http://localhost:5173");
    const allowed = await preflight("https://app.test");
    expect(allowed.status).toBe(204);
    expect(allowed.headers.get("access-control-allow-origin")).toBe("https://app.test");
    expect(allowed.headers.get("access-control-allow-headers")).toContain("authorization");
    expect(allowed.headers.get("access-control-allow-methods")).toContain("QUERY");
    for (const origin of [
      "https://app.test.evil.test",
      "https://app.test:8443",
      "null",
      "http://app.test",
    ])
      expect((await preflight(origin)).headers.has("access-control-allow-origin")).toBe(false);
    const rejection = await get(PREDICT, { origin: "https://app.test" });
    expect(rejection.status).toBe(401);
    expect(rejection.headers.get("access-control-allow-origin")).toBe("https://app.test");
    expect(rejection.headers.get("access-control-expose-headers")).toContain("x-edgetier-tier");
    expect(rejection.headers.get("vary")).toContain("Origin");
  });

  it("may call from any origin with *, never with cookies", async () => {
    await withOrigins("*");
    const answer = await get(PREDICT, { origin: "https://anyone.test", ...bearer(keys.both.key) });
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.has("access-control-allow-credentials")).toBe(false);
  });
});

describe("browsers with any response", () => {
  it("may neither run nor frame responses", async () => {
    for (const path of [PREDICT, "/nothing", "/v1/models"]) {
      const { headers } = await get(path);
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; frame-ancestors 'none'",
      );
      expect(Object.fromEntries(headers)).toMatchObject({
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "strict-transport-security": "max-age=15552000",
      });
    }
    const docs = await get("/docs");
    const style = /<style>([^<]*)<\/style>/.exec(await docs.text())?.[1] ?? "";
    const hash = btoa(
      String.fromCharCode(
        ...new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(style))),
      ),
    );
    expect(docs.headers.get("content-security-policy")).toBe(
      `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    );
  });
});
