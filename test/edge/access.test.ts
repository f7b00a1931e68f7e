// Who may ask what, over the whole application inside workerd.
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
import {
  AUDIENCE,
  ISSUER,
  type TestApiKey,
  createTestApiKey,
  createTestIssuer,
  type TestIssuer,
  createValidClaims,
} from "../support/test-credentials.ts";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";

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
  const key = (id: string, scopes: readonly Scope[], more: object = {}) =>
    createTestApiKey({ id, scopes, ...more });
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
  const tokens = createJwtAuthenticator({
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
      tokens,
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
const statusOf = async (path: string, { key }: TestApiKey) => (await get(path, bearer(key))).status;

describe("with credentials configured", () => {
  it("answers those who have the scope, and says to others which one they lack", async () => {
    expect(await statusOf(PREDICT, keys.both)).toBe(200);
    expect(await statusOf(PREDICT, keys.predict)).toBe(200);
    expect(await statusOf("/v1/models", keys.metadata)).toBe(200);
    const refused = await get(PREDICT, bearer(keys.metadata.key));
    expect(refused.status).toBe(403);
    expect(refused.headers.get("www-authenticate")).toBe(
      'Bearer realm="edgetier", error="insufficient_scope", scope="predict"',
    );
    expect(await refused.json()).toMatchObject({
      code: "missing_scope",
      detail: "This needs the scope predict; the credential has metadata.",
    });
    expect(await statusOf("/v1/models", keys.predict)).toBe(403);
    expect(await statusOf("/metrics", keys.both)).toBe(403);
    expect(await statusOf("/metrics", keys.admin)).toBe(200);
  });

  it("asks for a credential on every route but health and the API's description", async () => {
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
      expect({ path, ...scopeRequirementOf(path) }).toMatchObject({ path, isKnownPath: true }); // a new route has to be put into route-scopes.ts
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
    expect(await statusOf("/v1/models/toy/%70redict?input=yes", keys.metadata)).toBe(403);
  });

  it("challenges by RFC 6750, and says no more to those who bring nothing", async () => {
    const without = await get(PREDICT);
    expect(without.headers.get("www-authenticate")).toBe('Bearer realm="edgetier"');
    expect(await without.json()).toMatchObject({
      status: 401,
      code: "missing_credential",
      remedy: expect.stringContaining("edgetier keys create"),
    });
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
    expect(cut.headers.get("www-authenticate")).toBe(
      'Bearer realm="edgetier", error="invalid_token", error_description="The credential was refused: the API key is truncated or mistyped."',
    );
    expect((await get(PREDICT, { authorization: `bearer   ${keys.both.key}` })).status).toBe(200);
  });

  it("refuses in the form of each protocol, and keeps refusals out of caches", async () => {
    const infer = await post("/v2/models/toy/infer", {});
    expect({ status: infer.status, body: await infer.json() }).toMatchObject({
      status: 401,
      body: { error: expect.stringContaining("needs a credential") },
    });
    const embeddings = await post("/v1/embeddings", {});
    expect(await embeddings.json()).toMatchObject({
      error: { code: "missing_credential", message: expect.any(String) },
      code: "missing_credential",
    });
    for (const { headers } of [infer, embeddings])
      expect(headers.get("cache-control")).toBe("no-store");
  });

  it("lets each key ask its models only, by whichever route", async () => {
    await publishToyModel(edge.store, graph, { model: "other" });
    const headers = bearer(keys.onlyOther.key);
    expect((await get("/v1/models/other/predict?input=yes", headers)).status).toBe(200);
    const refused = [
      await get(PREDICT, headers),
      await get("/v1/models/toy@1/predict?input=yes", headers),
      await get("/v1/models/toy", headers),
      await get("/v2/models/toy", headers),
      await get("/v2/models/toy/ready", headers),
      await post("/v2/models/toy/infer", {}, headers),
      await post("/v2/models/toy/versions/1/infer", {}, headers),
      await post("/v1/embeddings", { model: "toy", input: "yes" }, headers),
    ];
    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 403));
    expect(await (await get("/v1/models", headers)).json()).toMatchObject({
      models: [{ model: "other" }],
    });
    expect(await (await get("/v1/models", bearer(keys.metadata.key))).json()).toMatchObject({
      models: [{ model: "other" }, { model: "toy" }],
    });
  });

  it("keeps what it answers out of caches that others read", async () => {
    const answer = await get(PREDICT, bearer(keys.both.key));
    expect(answer.headers.get("cache-control")).toBe("private, no-cache");
    expect(answer.headers.get("vary")).toContain("authorization");
    expect(answer.headers.has("cache-tag")).toBe(false);
    expect(answer.headers.get("etag")).toMatch(/^"/);
  });
});

describe("tokens", () => {
  const tokenOf = (more: object = {}) => issuer.sign(createValidClaims(edge.clock.now(), more));

  it("let their bearer in until they end, and fetch the issuer's keys once", async () => {
    const token = await tokenOf();
    for (let count = 0; count < 5; count++)
      expect((await get(PREDICT, bearer(token))).status).toBe(200);
    expect(jwksFetches).toBe(1);
    edge.clock.advance(90_000);
    const late = await get(PREDICT, bearer(token));
    expect(await late.json()).toMatchObject({
      status: 401,
      detail: "The credential was refused: the token has expired.",
    });
  });

  it("that are made up cause at most one fetch, and none to an address of their own", async () => {
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

  it("give the scopes that they have, and no more", async () => {
    const token = await tokenOf({ scope: "metadata" });
    expect((await get("/v1/models", bearer(token))).status).toBe(200);
    expect((await get(PREDICT, bearer(token))).status).toBe(403);
    expect(
      (await get("/metrics", bearer(await tokenOf({ scope: "predict metadata" })))).status,
    ).toBe(403);
  });
});

describe("without credentials", () => {
  it("is open but for administration, whatever a request brings", async () => {
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

describe("rate limits", () => {
  const limited = (clock: ManualClock): AccessPolicy => ({
    ...protectedAccess(clock),
    rateLimits: {
      limiter: createIsolateRateLimiter(clock),
      perPrincipal: { requests: 3, windowSeconds: 60 },
      perAddress: { requests: 2, windowSeconds: 10 },
      addressHeader: "cf-connecting-ip",
    },
  });
  beforeEach(async () => {
    edge = await startEdgeUnderTest(graph, fullDeployment, { createAccess: limited });
  });

  it("hold for each key, and tell how many are left", async () => {
    const take = () => get(PREDICT, bearer(keys.both.key));
    const first = await take();
    expect([
      first.status,
      first.headers.get("ratelimit-policy"),
      first.headers.get("ratelimit"),
    ]).toEqual([200, '"key";q=3;w=60', '"key";r=2;t=20']);
    await take();
    await take();
    const over = await take();
    expect([over.status, over.headers.get("ratelimit"), over.headers.get("retry-after")]).toEqual([
      429,
      '"key";r=0;t=60',
      "20",
    ]);
    expect(await over.json()).toMatchObject({
      code: "rate_limited",
      retryable: true,
      detail: "More than 3 requests within 60 s.",
    });
    expect((await get(PREDICT, bearer(keys.predict.key))).status).toBe(200);
    edge.clock.advance(20_000);
    expect((await take()).status).toBe(200);
  });

  it("hold for each address that brings no valid credential, and health is not counted", async () => {
    const from = (address: string, headers: Record<string, string> = {}) =>
      get(PREDICT, { "cf-connecting-ip": address, ...headers });
    expect([
      (await from("203.0.113.7")).status,
      (await from("203.0.113.7", bearer(`${keys.both.key}x`))).status,
      (await from("203.0.113.7")).status,
    ]).toEqual([401, 401, 429]);
    expect((await from("203.0.113.8")).status).toBe(401);
    expect((await from("203.0.113.7", bearer(keys.both.key))).status).toBe(200);
    const ipv6 = [await from("2001:db8::1"), await from("2001:db8::2"), await from("2001:db8::3")];
    expect(ipv6.map(({ status }) => status)).toEqual([401, 401, 429]);
    for (let count = 0; count < 5; count++)
      expect((await get("/v2/health/live", { "cf-connecting-ip": "203.0.113.7" })).status).toBe(
        200,
      );
  });

  it("go by no header that a client can set", async () => {
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

  it("of a key's own go before the deployment's", async () => {
    const own = await createTestApiKey({ rateLimit: { requests: 1, windowSeconds: 5 } });
    edge = await startEdgeUnderTest(graph, fullDeployment, {
      createAccess: (clock) => ({
        ...limited(clock),
        authenticators: [createApiKeyAuthenticator([own.entry], clock)],
      }),
    });
    expect([await statusOf(PREDICT, own), await statusOf(PREDICT, own)]).toEqual([200, 429]);
    expect((await get("/v2/models/toy", bearer(own.key))).status).toBe(429);
  });
});

describe("browsers", () => {
  const preflight = (origin: string) =>
    edge.app.request(PREDICT, {
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
      },
    });
  const withOrigins = async (...corsOrigins: string[]) => {
    edge = await startEdgeUnderTest(graph, fullDeployment, {
      createAccess: (clock) => ({ ...protectedAccess(clock), corsOrigins }),
    });
  };

  it("are told nothing of other origins unless it is configured", async () => {
    const answer = await get(PREDICT, { origin: "https://app.test", ...bearer(keys.both.key) });
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual(
      [],
    );
    expect((await preflight("https://app.test")).status).toBe(401);
  });

  it("may ask from the origins that are named, and see what there is to see", async () => {
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
    const refused = await get(PREDICT, { origin: "https://app.test" });
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([
      401,
      "https://app.test",
    ]);
    expect(refused.headers.get("access-control-expose-headers")).toContain("x-edgetier-tier");
    expect(refused.headers.get("vary")).toContain("Origin");
  });

  it("may ask from anywhere with *, and never with cookies", async () => {
    await withOrigins("*");
    const answer = await get(PREDICT, { origin: "https://anyone.test", ...bearer(keys.both.key) });
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.has("access-control-allow-credentials")).toBe(false);
  });

  it("run and frame nothing of what they get", async () => {
    for (const path of [PREDICT, "/nothing", "/v1/models"]) {
      const { headers } = await get(path);
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; frame-ancestors 'none'",
      );
      expect([
        headers.get("x-content-type-options"),
        headers.get("referrer-policy"),
        headers.get("strict-transport-security"),
      ]).toEqual(["nosniff", "no-referrer", "max-age=15552000"]);
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
