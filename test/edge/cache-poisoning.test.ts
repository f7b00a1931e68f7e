// Cache poisoning: no result crosses tenants, inputs, parameters or versions, for any request or cache content.
import { beforeEach, describe, expect, it } from "vitest";
import type { CacheStore } from "../../src/cache/cache-store.ts";
import { createHashedKeyStore } from "../../src/cache/hashed-key-store.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import toy from "../fixtures/toy.onnx";
import { asTenant } from "../support/as-tenant.ts";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { fullDeployment } from "./full-engine.ts";
import { readProblem } from "./read-problem.ts";

/** Content of L2, by hashed key. */
let storedValues: Map<string, Uint8Array>;
let l2: CacheStore;
let edge: EdgeUnderTest;

const startEdge = () =>
  startEdgeUnderTest(new Uint8Array(toy), fullDeployment, {
    cacheLayers: [{ name: "l2", store: l2, ttlSeconds: 60 }],
  });

beforeEach(async () => {
  storedValues = new Map();
  l2 = createHashedKeyStore({
    get: async (keys) => keys.map((key) => storedValues.get(key)),
    set: async (entries) => entries.forEach(({ key, value }) => storedValues.set(key, value)),
  });
  edge = await startEdge();
});

const readLabel = async (response: Response) =>
  predictResponseSchema.parse(await response.json()).outputs[0]?.label;
const cacheResultOf = (response: Response) => response.headers.get("x-edgetier-cache");
const get = (search: string, init: RequestInit = {}, path = "toy/predict") =>
  edge.app.request(`/v1/models/${path}?${search}`, init);

describe("two tenants", () => {
  const predictAs = (tenant: string, headers: Record<string, string> = {}) =>
    asTenant(tenant, edge.app).request("/v1/models/toy@1/predict?input=maybe", { headers });

  it("share no result and no ETag, not even with anonymous clients", async () => {
    const tags = new Set<string | null>();
    for (const tenant of ["acme", "globex", "", "acme|globex"]) {
      const response = await predictAs(tenant);
      expect(cacheResultOf(response)).toBe("miss");
      tags.add(response.headers.get("etag"));
      expect(cacheResultOf(await predictAs(tenant))).toBe("l1");
    }
    expect(tags.size).toBe(4);
    expect(storedValues.size).toBe(4);
  });

  it("cannot revalidate with each other's ETag", async () => {
    const etag = (await predictAs("acme")).headers.get("etag") ?? "";
    expect((await predictAs("acme", { "if-none-match": etag })).status).toBe(304);
    expect((await predictAs("globex", { "if-none-match": etag })).status).toBe(200);
  });

  it("get responses that no shared cache may store", async () => {
    const { headers } = await predictAs("acme");
    expect(headers.get("cache-control")).toBe("private, no-cache");
    expect(headers.get("cdn-cache-control")).toBeNull();
    expect(headers.get("cache-tag")).toBeNull();
  });

  it("do not collide through special names", async () => {
    for (const tenant of ["a", "a1:", "1:a", "a3:toy"])
      expect(cacheResultOf(await predictAs(tenant))).toBe("miss");
  });
});

describe("unkeyed request headers", () => {
  const headers: Record<string, string>[] = [
    { host: "evil.example" },
    {
      "x-forwarded-host": "evil.example",
      "x-forwarded-proto": "http",
      "x-forwarded-for": "10.0.0.1",
      forwarded: "host=evil.example",
    },
    { "x-original-url": "/v1/models/other/predict", "x-rewrite-url": "/v1/models" },
    { "accept-language": "xx", accept: "text/html", "accept-encoding": "br" },
    {
      origin: "https://evil.example",
      referer: "https://evil.example/",
      cookie: "session=1; input=no",
    },
    {
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      "x-request-id": "evil",
    },
    {
      prefer: "wait=5",
      "user-agent": "evil",
      "x-http-method-override": "POST",
      "x-method-override": "DELETE",
    },
    { "content-type": "application/json; charset=utf-7; boundary=x" },
  ];

  it.each(headers)("%o changes neither the response nor the cache", async (unkeyedHeaders) => {
    const [plain, varied] = [
      await get("input=yes", {}, "toy@1/predict"),
      await get("input=yes", { headers: unkeyedHeaders }, "toy@1/predict"),
    ];
    expect(varied.status).toBe(200);
    expect(cacheResultOf(varied)).toBe("l1");
    expect(await varied.text()).toBe(await plain.text());
    const listComparableHeaders = ({ headers }: Response) =>
      [...headers].filter(([name]) => !["x-edgetier-cache", "server-timing"].includes(name));
    expect(listComparableHeaders(varied)).toEqual(listComparableHeaders(plain));
    expect(JSON.stringify([...varied.headers])).not.toContain("evil");
  });

  it("of a degraded response do not affect the next one", async () => {
    edge.regionBehavior = "hangs";
    const short = edge.predict({ inputs: "maybe" }, { "x-deadline-ms": "50" });
    await expect.poll(() => edge.regionRequests.length).toBe(1);
    edge.clock.advance(50);
    expect(predictResponseSchema.parse(await (await short).json()).outputs[0]).toMatchObject({
      degraded: true,
    });
    edge.regionBehavior = "up";
    expect(cacheResultOf(await edge.predict({ inputs: "maybe" }))).toBe("miss");
    expect(storedValues.size).toBe(1);
  });
});

describe("a URL", () => {
  it.each(["input=yes&input=no", "input=no&topK=1&topK=5", "input=yes&cache=use&cache=bypass"])(
    "with a repeated parameter is rejected: %s",
    async (search) => {
      const response = await get(search);
      expect(await readProblem(response)).toMatchObject({
        status: 400,
        code: "repeated_parameter",
      });
    },
  );

  it.each([
    "input=yes&Input=no",
    "input=yes&input[]=no",
    "input=yes&utm_source=x",
    "input=yes&callback=evil",
    "input=yes;input=no&x=1",
  ])("with an unknown parameter is rejected: %s", async (search) => {
    expect((await get(search)).status).toBe(400);
  });

  it("has the same key in any order and encoding, and another for other values", async () => {
    expect(cacheResultOf(await get("input=yes&topK=2"))).toBe("miss");
    for (const search of ["topK=2&input=yes", "input=%79es&topK=2", "input=y%65s&topK=%32"])
      expect(cacheResultOf(await get(search))).toBe("l1");
    expect(cacheResultOf(await get("input=yes&topK=2", {}, "%74oy/predict"))).toBe("l1");
    for (const search of [
      "input=yes&topK=1",
      "input=yes%20&topK=2",
      "input=yes%00&topK=2",
      "input=YES&topK=2",
      "input=yes%26topK%3D1&topK=2",
    ]) {
      expect(cacheResultOf(await get(search)), search).toBe("miss");
    }
  });

  it.each([
    "Toy/predict",
    "toy/Predict",
    "toy/predict/",
    "toy//predict",
    "toy/predict;x=1",
    "toy%2Fpredict",
    "toy/predict%00",
  ])("with another path is another resource: %s", async (path) => {
    const response = await get("input=yes", {}, path);
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(response.headers.get("cache-control")).toBe("no-store");
  });
});

describe("a method", () => {
  it("is not overridden by a header", async () => {
    expect((await get("input=yes", { method: "DELETE" })).status).toBe(405);
    const post = await edge.predict({ inputs: "no" }, { "x-http-method-override": "GET" });
    expect(post.headers.get("etag")).toBeNull();
    expect(post.headers.get("cache-control")).toBe("no-store");
  });

  it("QUERY has another ETag for each body", async () => {
    const query = (body: string) =>
      edge.app.request("/v1/models/toy/predict?topK=9", {
        method: "QUERY",
        headers: { "content-type": "application/json" },
        body,
      });
    const tags = await Promise.all(
      [
        '{"inputs":"yes"}',
        '{"inputs":"no"}',
        '{"inputs":["yes","no"]}',
        '{"inputs":["no","yes"]}',
        '{"inputs":"yes","parameters":{"topK":1}}',
      ].map(async (body) => (await query(body)).headers.get("etag")),
    );
    expect(new Set(tags).size).toBe(5);
  });
});

describe("a forged value in L2", () => {
  const predictInAnotherIsolate = async () => {
    edge = await startEdge();
    return await edge.predict({ inputs: "maybe" });
  };

  beforeEach(async () => {
    await edge.predict({ inputs: "maybe" });
    await edge.predict({ inputs: "yes" });
  });

  it("is not used unless it is intact", async () => {
    expect(cacheResultOf(await predictInAnotherIsolate())).toBe("l2");
    const intact = new Map(storedValues);
    const forged: ((value: Uint8Array) => Uint8Array)[] = [
      (value) => value.subarray(0, value.length - 1),
      (value) => value.map((byte, index) => (index === value.length - 5 ? byte ^ 1 : byte)),
      () =>
        new TextEncoder().encode(
          '{"label":"evil","confidence":1,"outOfScope":false,"ranking":[],"tier":"edge","degraded":false}',
        ),
      () => new Uint8Array(),
    ];
    for (const forge of forged) {
      storedValues = new Map([...intact].map(([key, value]) => [key, forge(value)]));
      const response = await predictInAnotherIsolate();
      expect(cacheResultOf(response)).toBe("miss");
      expect(await readLabel(response)).toBe("no");
    }
  });

  it("is not used under another result's key", async () => {
    const [[firstKey, first], [secondKey, second]] = [...storedValues] as [
      [string, Uint8Array],
      [string, Uint8Array],
    ];
    storedValues = new Map([
      [firstKey, second],
      [secondKey, first],
    ]);
    const response = await predictInAnotherIsolate();
    expect(cacheResultOf(response)).toBe("miss");
    expect(await readLabel(response)).toBe("no");
  });

  it("is not used if it has a valid seal but no result", async () => {
    l2 = {
      get: async (keys) =>
        keys.map(() => new TextEncoder().encode('{"label":"yes","degraded":true}')),
      set: async () => {},
    };
    const response = await predictInAnotherIsolate();
    expect(cacheResultOf(response)).toBe("miss");
    expect(await readLabel(response)).toBe("no");
  });
});
