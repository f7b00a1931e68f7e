// What clients and CDNs are told about keeping answers, and what they can ask for.
import { beforeEach, describe, expect, it } from "vitest";
import { type PredictResponse, predictResponseSchema } from "../../src/protocol/predict.ts";
import toy from "../fixtures/toy.onnx";
import {
  ALIAS_TTL_MS,
  type EdgeUnderTest,
  type EdgeUnderTestOptions,
  startEdgeUnderTest,
} from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";

const start = (options: EdgeUnderTestOptions = {}) =>
  startEdgeUnderTest(new Uint8Array(toy), fullDeployment, options);
let edge: EdgeUnderTest;
beforeEach(async () => {
  edge = await start();
});

const predictGet = (path: string, headers: Record<string, string> = {}, on = edge) =>
  on.app.request(`/v1/models/${path}`, { headers });
const query = (body: object, headers: Record<string, string> = {}) =>
  edge.app.request("/v1/models/toy/predict", {
    method: "QUERY",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
const cacheHeadersOf = ({ headers }: Response) => [
  headers.get("cache-control"),
  headers.get("cdn-cache-control"),
  headers.get("cache-tag"),
];
const readPrediction = async (response: Response): Promise<PredictResponse> =>
  predictResponseSchema.parse(await response.json());
const cacheResultOf = (response: Response) => response.headers.get("x-edgetier-cache");

async function promote(version: number, more: object = {}): Promise<void> {
  await publishToyModel(edge.store, new Uint8Array(toy), { version });
  const read = await edge.store.readAliases("toy");
  await edge.store.writeAliases("toy", { stable: version, ...more }, read?.etag);
  edge.clock.advance(2 * ALIAS_TTL_MS);
}

describe("what HTTP caches may keep", () => {
  it("is what was asked of a version by its number, for long", async () => {
    expect(cacheHeadersOf(await predictGet("toy@1/predict?input=yes"))).toEqual([
      "public, max-age=3600, s-maxage=2592000, stale-while-revalidate=86400, stale-if-error=2592000, immutable",
      null,
      "toy,toy:1",
    ]);
  });

  it("is an alias's answer only by asking again, unless promotions purge it", async () => {
    expect(cacheHeadersOf(await predictGet("toy/predict?input=yes"))).toEqual([
      "public, no-cache",
      null,
      "toy,toy:1,toy@stable",
    ]);
    const purged = await start({ cdnAliasSeconds: 60 });
    expect(cacheHeadersOf(await predictGet("toy/predict?input=yes", {}, purged))).toEqual([
      "public, no-cache",
      "public, max-age=60, stale-while-revalidate=60, stale-if-error=86400",
      "toy,toy:1,toy@stable",
    ]);
  });

  it("is no answer of an alias of which canaries take a share", async () => {
    edge = await start({ cdnAliasSeconds: 60 });
    await promote(2, { canary: { version: 1, weight: 0.1 } });
    const [cacheControl, forCdns] = cacheHeadersOf(await predictGet("toy/predict?input=yes"));
    expect([cacheControl, forCdns]).toEqual(["public, no-cache", null]);
    expect(cacheHeadersOf(await predictGet("toy@canary/predict?input=yes"))[1]).toContain(
      "max-age=60",
    );
  });

  it("is nothing of a POST, nothing degraded, no error, and nothing that asks anew by its URL", async () => {
    expect(cacheHeadersOf(await edge.predict({ inputs: "yes" }))).toEqual(["no-store", null, null]);
    expect(cacheHeadersOf(await predictGet("toy@1/predict?input=yes&cache=refresh"))).toEqual([
      "no-store",
      null,
      null,
    ]);
    expect(cacheHeadersOf(await query({ inputs: "yes", parameters: { cache: "bypass" } }))).toEqual(
      ["no-store", null, null],
    );
    expect(cacheHeadersOf(await predictGet("toy@9/predict?input=yes"))).toEqual([
      "no-store",
      null,
      null,
    ]);
    edge.regionBehavior = "down";
    const degraded = await predictGet("toy@1/predict?input=maybe");
    expect([...cacheHeadersOf(degraded), degraded.headers.get("etag")]).toEqual([
      "no-store",
      null,
      null,
      null,
    ]);
  });

  it("is only the client's own copy where the request says who sent it", async () => {
    const response = await predictGet("toy@1/predict?input=yes", { authorization: "Bearer x" });
    expect(cacheHeadersOf(response)).toEqual(["private, no-cache", null, null]);
    expect(response.headers.get("etag")).not.toBeNull();
  });

  it("has nothing of the request in it that the first client sent", async () => {
    const [first, second] = [
      await predictGet("toy@1/predict?input=maybe", { "x-request-id": "mine" }),
      await predictGet("toy@1/predict?input=maybe", { "x-request-id": "yours" }),
    ];
    expect([
      cacheResultOf(first),
      cacheResultOf(second),
      first.headers.get("x-request-id"),
    ]).toEqual(["miss", "l1", null]);
    expect(second.headers.get("etag")).toBe(first.headers.get("etag"));
    expect(await second.text()).toBe(await first.text()); // what a strong ETag promises
  });
});

describe("HEAD", () => {
  it("tells what GET would, without the answer", async () => {
    const [head, get] = [
      await edge.app.request("/v1/models/toy@1/predict?input=yes", { method: "HEAD" }),
      await predictGet("toy@1/predict?input=yes"),
    ];
    expect([
      head.status,
      await head.text(),
      head.headers.get("etag"),
      ...cacheHeadersOf(head),
    ]).toEqual([200, "", get.headers.get("etag"), ...cacheHeadersOf(get)]);
  });
});

describe("a version change", () => {
  it("never leaves an old answer to be found: not by ETag, not in the caches", async () => {
    const before = await predictGet("toy/predict?input=yes");
    const etag = before.headers.get("etag") ?? "";
    await promote(2);
    const after = await predictGet("toy/predict?input=yes", { "if-none-match": etag });
    expect([after.status, cacheResultOf(after), (await readPrediction(after)).version]).toEqual([
      200,
      "miss",
      2,
    ]);
    expect(after.headers.get("etag")).not.toBe(etag);
    const old = await predictGet("toy@1/predict?input=yes", { "if-none-match": etag });
    expect(old.status).toBe(304);
  });
});

describe("revalidation", () => {
  it("computes nothing and asks no cache", async () => {
    const etag = (await predictGet("toy/predict?input=maybe")).headers.get("etag") ?? "";
    edge.regionBehavior = "down";
    edge.clock.advance(3_600_000); // nothing is cached any more
    const held = await predictGet("toy/predict?input=maybe", { "if-none-match": etag });
    expect([
      held.status,
      held.headers.get("etag"),
      cacheResultOf(held),
      held.headers.get("cache-tag"),
    ]).toEqual([304, etag, null, "toy,toy:1,toy@stable"]);
    expect(edge.regionRequests).toHaveLength(1);
  });
});

describe("cache-control of a request", () => {
  beforeEach(async () => {
    await edge.predict({ inputs: "maybe" });
  });

  it.each([
    ["no-cache", "miss", "l1"],
    ["max-age=0", "miss", "l1"],
    ["No-Store", "bypass", "l1"],
    ["max-age=60, no-transform", "l1", "l1"],
    ["only-if-cached", "l1", "l1"],
  ])("%s: %s", async (value, result, next) => {
    const headers = { "cache-control": value };
    expect(cacheResultOf(await edge.predict({ inputs: "maybe" }, headers))).toBe(result);
    expect(cacheResultOf(await predictGet("toy/predict?input=maybe", headers))).toBe(result);
    expect(cacheResultOf(await query({ inputs: "maybe" }, headers))).toBe(result);
    expect(cacheResultOf(await edge.predict({ inputs: "maybe" }))).toBe(next);
  });

  it("only-if-cached: 504 for what would have to be computed", async () => {
    const response = await edge.predict(
      { inputs: ["maybe", "zzz"] },
      { "cache-control": "only-if-cached" },
    );
    expect([response.status, await response.json()]).toMatchObject([
      504,
      { code: "not_cached", detail: expect.stringContaining("1 of the inputs") },
    ]);
    expect(edge.regionRequests).toHaveLength(1);
  });

  it("says less than the request's own parameter", async () => {
    expect(
      cacheResultOf(
        await edge.predict(
          { inputs: "maybe", parameters: { cache: "use" } },
          { "cache-control": "no-store" },
        ),
      ),
    ).toBe("l1");
    expect(
      cacheResultOf(
        await predictGet("toy/predict?input=maybe&cache=bypass", { "cache-control": "no-cache" }),
      ),
    ).toBe("bypass");
  });
});

describe("an array", () => {
  it("has equal inputs computed once", async () => {
    const { outputs, usage } = await readPrediction(
      await edge.predict({ inputs: ["maybe", "yes", "maybe", "yes"] }),
    );
    expect(outputs.map(({ label, tier }) => [label, tier])).toEqual([
      ["no", "region"],
      ["yes", "edge"],
      ["no", "region"],
      ["yes", "edge"],
    ]);
    expect(usage.tiers).toEqual([
      { tier: "edge", inputs: 2 },
      { tier: "region", inputs: 1 },
    ]);
  });
});
