// HTTP caching: cache headers for clients and CDNs, revalidation, and request directives.
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
import { readProblem } from "./read-problem.ts";

const start = (options: EdgeUnderTestOptions = {}) =>
  startEdgeUnderTest(new Uint8Array(toy), fullDeployment, options);
let edge: EdgeUnderTest;
beforeEach(async () => {
  edge = await start();
});

const predictGet = (path: string, headers: Record<string, string> = {}, target = edge) =>
  target.app.request(`/v1/models/${path}`, { headers });
const query = (body: object, headers: Record<string, string> = {}) =>
  edge.app.request("/v1/models/toy/predict", {
    method: "QUERY",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
const cacheHeadersOf = ({ headers }: Response) => ({
  cacheControl: headers.get("cache-control"),
  cdnCacheControl: headers.get("cdn-cache-control"),
  cacheTag: headers.get("cache-tag"),
});
const NOT_STORED = { cacheControl: "no-store", cdnCacheControl: null, cacheTag: null };
const readPrediction = async (response: Response): Promise<PredictResponse> =>
  predictResponseSchema.parse(await response.json());
const cacheResultOf = (response: Response) => response.headers.get("x-edgetier-cache");

async function promote(version: number, otherAliases: object = {}): Promise<void> {
  await publishToyModel(edge.store, new Uint8Array(toy), { version });
  const read = await edge.store.readAliases("toy");
  await edge.store.writeAliases("toy", { stable: version, ...otherAliases }, read?.etag);
  edge.clock.advance(2 * ALIAS_TTL_MS);
}

describe("cache headers", () => {
  it("allow long caching for a pinned version", async () => {
    expect(cacheHeadersOf(await predictGet("toy@1/predict?input=yes"))).toEqual({
      cacheControl:
        "public, max-age=3600, s-maxage=2592000, stale-while-revalidate=86400, stale-if-error=2592000, immutable",
      cdnCacheControl: null,
      cacheTag: "toy,toy:1",
    });
  });

  it("require revalidation for an alias, unless promotions purge the CDN", async () => {
    expect(cacheHeadersOf(await predictGet("toy/predict?input=yes"))).toEqual({
      cacheControl: "public, no-cache",
      cdnCacheControl: null,
      cacheTag: "toy,toy:1,toy@stable",
    });
    const purged = await start({ cdnAliasSeconds: 60 });
    expect(cacheHeadersOf(await predictGet("toy/predict?input=yes", {}, purged))).toEqual({
      cacheControl: "public, no-cache",
      cdnCacheControl: "public, max-age=60, stale-while-revalidate=60, stale-if-error=86400",
      cacheTag: "toy,toy:1,toy@stable",
    });
  });

  it("forbid CDN caching for an alias with canaries", async () => {
    edge = await start({ cdnAliasSeconds: 60 });
    await promote(2, { canary: { version: 1, weight: 0.1 } });
    expect(cacheHeadersOf(await predictGet("toy/predict?input=yes"))).toMatchObject({
      cacheControl: "public, no-cache",
      cdnCacheControl: null,
    });
    expect(
      cacheHeadersOf(await predictGet("toy@canary/predict?input=yes")).cdnCacheControl,
    ).toContain("max-age=60");
  });

  it("forbid caching for POST, degraded results, errors and refreshes by URL", async () => {
    expect(cacheHeadersOf(await edge.predict({ inputs: "yes" }))).toEqual(NOT_STORED);
    expect(cacheHeadersOf(await predictGet("toy@1/predict?input=yes&cache=refresh"))).toEqual(
      NOT_STORED,
    );
    expect(cacheHeadersOf(await query({ inputs: "yes", parameters: { cache: "bypass" } }))).toEqual(
      NOT_STORED,
    );
    expect(cacheHeadersOf(await predictGet("toy@9/predict?input=yes"))).toEqual(NOT_STORED);
    edge.regionBehavior = "down";
    const degraded = await predictGet("toy@1/predict?input=maybe");
    expect(cacheHeadersOf(degraded)).toEqual(NOT_STORED);
    expect(degraded.headers.get("etag")).toBeNull();
  });
});

describe("cache headers of private and shared responses", () => {
  it("allow only private caching for a request with a credential", async () => {
    const response = await predictGet("toy@1/predict?input=yes", { authorization: "Bearer x" });
    expect(cacheHeadersOf(response)).toEqual({
      cacheControl: "private, no-cache",
      cdnCacheControl: null,
      cacheTag: null,
    });
    expect(response.headers.get("etag")).not.toBeNull();
  });

  it("accompany a body without data of the first client's request", async () => {
    const [first, second] = [
      await predictGet("toy@1/predict?input=maybe", { "x-request-id": "mine" }),
      await predictGet("toy@1/predict?input=maybe", { "x-request-id": "yours" }),
    ];
    expect(cacheResultOf(first)).toBe("miss");
    expect(cacheResultOf(second)).toBe("l1");
    expect(first.headers.get("x-request-id")).toBeNull();
    expect(second.headers.get("etag")).toBe(first.headers.get("etag"));
    expect(await second.text()).toBe(await first.text()); // as the strong ETag requires
  });
});

describe("HEAD", () => {
  it("returns the headers of GET without a body", async () => {
    const [head, get] = [
      await edge.app.request("/v1/models/toy@1/predict?input=yes", { method: "HEAD" }),
      await predictGet("toy@1/predict?input=yes"),
    ];
    expect(head.status).toBe(200);
    expect(await head.text()).toBe("");
    expect(head.headers.get("etag")).toBe(get.headers.get("etag"));
    expect(cacheHeadersOf(head)).toEqual(cacheHeadersOf(get));
  });
});

describe("a version change", () => {
  it("invalidates old ETags and cached results", async () => {
    const before = await predictGet("toy/predict?input=yes");
    const etag = before.headers.get("etag") ?? "";
    await promote(2);
    const after = await predictGet("toy/predict?input=yes", { "if-none-match": etag });
    expect(after.status).toBe(200);
    expect(cacheResultOf(after)).toBe("miss");
    expect((await readPrediction(after)).version).toBe(2);
    expect(after.headers.get("etag")).not.toBe(etag);
    const old = await predictGet("toy@1/predict?input=yes", { "if-none-match": etag });
    expect(old.status).toBe(304);
  });
});

describe("revalidation", () => {
  it("neither computes nor reads a cache", async () => {
    const etag = (await predictGet("toy/predict?input=maybe")).headers.get("etag") ?? "";
    edge.regionBehavior = "down";
    edge.clock.advance(3_600_000); // expires all cached results
    const revalidated = await predictGet("toy/predict?input=maybe", { "if-none-match": etag });
    expect(revalidated.status).toBe(304);
    expect(revalidated.headers.get("etag")).toBe(etag);
    expect(cacheResultOf(revalidated)).toBeNull();
    expect(revalidated.headers.get("cache-tag")).toBe("toy,toy:1,toy@stable");
    expect(edge.regionRequests).toHaveLength(1);
  });
});

describe("the request's cache-control", () => {
  beforeEach(async () => {
    await edge.predict({ inputs: "maybe" });
  });

  it.each([
    ["no-cache", "miss", "l1"],
    ["max-age=0", "miss", "l1"],
    ["No-Store", "bypass", "l1"],
    ["max-age=60, no-transform", "l1", "l1"],
    ["only-if-cached", "l1", "l1"],
  ])("%s has the cache result %s, then %s", async (value, result, nextResult) => {
    const headers = { "cache-control": value };
    expect(cacheResultOf(await edge.predict({ inputs: "maybe" }, headers))).toBe(result);
    expect(cacheResultOf(await predictGet("toy/predict?input=maybe", headers))).toBe(result);
    expect(cacheResultOf(await query({ inputs: "maybe" }, headers))).toBe(result);
    expect(cacheResultOf(await edge.predict({ inputs: "maybe" }))).toBe(nextResult);
  });

  it("only-if-cached fails with 504 for missing results", async () => {
    const response = await edge.predict(
      { inputs: ["maybe", "zzz"] },
      { "cache-control": "only-if-cached" },
    );
    expect(await readProblem(response)).toMatchObject({ status: 504, code: "not_cached" });
    expect(edge.regionRequests).toHaveLength(1);
  });

  it("yields to the `cache` parameter", async () => {
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

describe("an array of inputs", () => {
  it("is computed once for equal inputs", async () => {
    const { outputs, usage } = await readPrediction(
      await edge.predict({ inputs: ["maybe", "yes", "maybe", "yes"] }),
    );
    expect(outputs).toMatchObject([
      { label: "no", tier: "region" },
      { label: "yes", tier: "edge" },
      { label: "no", tier: "region" },
      { label: "yes", tier: "edge" },
    ]);
    expect(usage.tiers).toEqual([
      { tier: "edge", inputs: 2 },
      { tier: "region", inputs: 1 },
    ]);
  });
});
