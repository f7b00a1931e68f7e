// No answer crosses from one tenant, input, parameter or version to another, whatever a client or a cache's content is made of.
import { beforeEach, describe, expect, it } from "vitest";
import type { CacheStore } from "../../src/cache/cache-store.ts";
import { createHashedKeyStore } from "../../src/cache/hashed-key-store.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import toy from "../fixtures/toy.onnx";
import { asTenant } from "../support/as-tenant.ts";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { fullDeployment } from "./full-engine.ts";

/** What lies in L2, by hashed key. */
let stored: Map<string, Uint8Array>;
let l2: CacheStore;
let edge: EdgeUnderTest;

const startEdge = () =>
  startEdgeUnderTest(new Uint8Array(toy), fullDeployment, {
    cacheLayers: [{ name: "l2", store: l2, ttlSeconds: 60 }],
  });

beforeEach(async () => {
  stored = new Map();
  l2 = createHashedKeyStore({
    get: async (keys) => keys.map((key) => stored.get(key)),
    set: async (entries) => entries.forEach(({ key, value }) => stored.set(key, value)),
  });
  edge = await startEdge();
});

const labelOf = async (response: Response) =>
  predictResponseSchema.parse(await response.json()).outputs[0]?.label;
const cacheResultOf = (response: Response) => response.headers.get("x-edgetier-cache");
const get = (search: string, init: RequestInit = {}, path = "toy/predict") =>
  edge.app.request(`/v1/models/${path}?${search}`, init);

describe("two tenants", () => {
  const ask = (tenant: string, headers: Record<string, string> = {}) =>
    asTenant(tenant, edge.app).request("/v1/models/toy@1/predict?input=maybe", { headers });

  it("do not share an answer, nor an ETag, nor anything with those who said nothing", async () => {
    const tags = new Set<string | null>();
    for (const tenant of ["acme", "globex", "", "acme|globex"]) {
      const response = await ask(tenant);
      expect(cacheResultOf(response)).toBe("miss");
      tags.add(response.headers.get("etag"));
      expect(cacheResultOf(await ask(tenant))).toBe("l1");
    }
    expect(tags.size).toBe(4);
    expect(stored.size).toBe(4);
  });

  it("get nothing by each other's ETag", async () => {
    const etag = (await ask("acme")).headers.get("etag") ?? "";
    expect([
      (await ask("acme", { "if-none-match": etag })).status,
      (await ask("globex", { "if-none-match": etag })).status,
    ]).toEqual([304, 200]);
  });

  it("have answers that no shared cache may keep", async () => {
    const { headers } = await ask("acme");
    expect([
      headers.get("cache-control"),
      headers.get("cdn-cache-control"),
      headers.get("cache-tag"),
    ]).toEqual(["private, no-cache", null, null]);
  });

  it("do not meet by what their names are made of", async () => {
    for (const tenant of ["a", "a1:", "1:a", "a3:toy"])
      expect(cacheResultOf(await ask(tenant))).toBe("miss");
  });
});

describe("a request's unkeyed headers", () => {
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

  it.each(headers)("%o changes neither the answer nor what is kept", async (more) => {
    const [plain, varied] = [
      await get("input=yes", {}, "toy@1/predict"),
      await get("input=yes", { headers: more }, "toy@1/predict"),
    ];
    expect([varied.status, cacheResultOf(varied), await varied.text()]).toEqual([
      200,
      "l1",
      await plain.text(),
    ]);
    const told = ({ headers }: Response) =>
      [...headers].filter(([name]) => !["x-edgetier-cache", "server-timing"].includes(name));
    expect(told(varied)).toEqual(told(plain));
    expect(JSON.stringify([...varied.headers])).not.toContain("evil");
  });

  it("of a degraded answer leave nothing behind for the next", async () => {
    edge.regionBehavior = "hangs";
    const short = edge.predict({ inputs: "maybe" }, { "x-deadline-ms": "50" });
    await expect.poll(() => edge.regionRequests.length).toBe(1);
    edge.clock.advance(50);
    expect(predictResponseSchema.parse(await (await short).json()).outputs[0]).toMatchObject({
      degraded: true,
    });
    edge.regionBehavior = "up";
    expect(cacheResultOf(await edge.predict({ inputs: "maybe" }))).toBe("miss");
    expect(stored.size).toBe(1);
  });
});

describe("a URL", () => {
  it.each(["input=yes&input=no", "input=no&topK=1&topK=5", "input=yes&cache=use&cache=bypass"])(
    "with a parameter twice is refused: %s",
    async (search) => {
      const response = await get(search);
      expect([response.status, await response.json()]).toMatchObject([
        400,
        { code: "repeated_parameter" },
      ]);
    },
  );

  it.each([
    "input=yes&Input=no",
    "input=yes&input[]=no",
    "input=yes&utm_source=x",
    "input=yes&callback=evil",
    "input=yes;input=no&x=1",
  ])("with a parameter that is not known is refused: %s", async (search) => {
    expect((await get(search)).status).toBe(400);
  });

  it("means the same in any order and encoding, and keeps apart what differs", async () => {
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
      expect([search, cacheResultOf(await get(search))]).toEqual([search, "miss"]);
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
  ])("of another path is another resource: %s", async (path) => {
    const response = await get("input=yes", {}, path);
    expect([response.status >= 400, response.headers.get("cache-control")]).toEqual([
      true,
      "no-store",
    ]);
  });
});

describe("a method", () => {
  it("is not overridden by a header", async () => {
    expect((await get("input=yes", { method: "DELETE" })).status).toBe(405);
    const post = await edge.predict({ inputs: "no" }, { "x-http-method-override": "GET" });
    expect([post.headers.get("etag"), post.headers.get("cache-control")]).toEqual([
      null,
      "no-store",
    ]);
  });

  it("QUERY keeps apart bodies that GET's URL could not tell", async () => {
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

describe("what somebody else wrote to L2", () => {
  const anotherIsolate = async () => {
    edge = await startEdge();
    return await edge.predict({ inputs: "maybe" });
  };

  beforeEach(async () => {
    await edge.predict({ inputs: "maybe" });
    await edge.predict({ inputs: "yes" });
  });

  it("is used only as it was written, whole", async () => {
    expect(cacheResultOf(await anotherIsolate())).toBe("l2");
    const whole = new Map(stored);
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
      stored = new Map([...whole].map(([key, value]) => [key, forge(value)]));
      const response = await anotherIsolate();
      expect([cacheResultOf(response), await labelOf(response)]).toEqual(["miss", "no"]);
    }
  });

  it("is not used under another answer's key", async () => {
    const [[one, first], [other, second]] = [...stored] as [
      [string, Uint8Array],
      [string, Uint8Array],
    ];
    stored = new Map([
      [one, second],
      [other, first],
    ]);
    const response = await anotherIsolate();
    expect([cacheResultOf(response), await labelOf(response)]).toEqual(["miss", "no"]);
  });

  it("does not pass for an answer when it is sealed well, and is none", async () => {
    l2 = {
      get: async (keys) =>
        keys.map(() => new TextEncoder().encode('{"label":"yes","degraded":true}')),
      set: async () => {},
    };
    const response = await anotherIsolate();
    expect([cacheResultOf(response), await labelOf(response)]).toEqual(["miss", "no"]);
  });
});
