// Client: its requests to the edge app in workerd, and how it reads the responses. One file, because all tests share the
// recording client.
import { beforeEach, describe, expect, it } from "vitest";
import tensorDeployment from "../../dist/test/tensors/deployment.mjs";
import {
  type ClientOptions,
  createResponseCache,
  createClient,
  type Tensor,
} from "../../src/client/index.ts";
import { typedArrays } from "../../src/core/tensor.ts";
import type { RegionList } from "../../src/protocol/region-list.ts";
import toy from "../fixtures/toy.onnx";
import { publishColorModel } from "../support/color-model.ts";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishEmbeddingModel, unit } from "../support/embedding-model.ts";
import { sampleImage } from "../support/sample-images.ts";
import { IDENTITY_DATATYPES, publishTensorModel } from "../support/tensor-model.ts";
import { fullDeployment } from "./full-engine.ts";
import { graphs } from "./infer-requests.ts";

const { images } = tensorDeployment;
const RED = sampleImage("jpeg, red").file;
const BLUE = sampleImage("png, blue").file;

let edge: EdgeUnderTest;
let requests: Request[];
beforeEach(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), { ...fullDeployment, images });
  requests = [];
});

/** @param responses replace the edge's responses, by origin */
const createTestClient = (
  options: Partial<ClientOptions> = {},
  responses: Readonly<Record<string, () => Response>> = {},
) =>
  createClient({
    url: "http://edge.test",
    maxRetries: 0,
    ...options,
    async fetch(input, init) {
      const request = new Request(input, init);
      requests.push(request.clone());
      return await (responses[new URL(request.url).origin]?.() ?? edge.app.request(request));
    },
  });
const catchRejection = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("a prediction", () => {
  it("of one text has one output, and of several texts one per text", async () => {
    const client = createTestClient();
    const prediction = await client.predict("toy", "yes", { topK: 1 });
    expect(prediction).toMatchObject({
      model: "toy",
      version: 1,
      source: "miss",
      requestId: expect.stringMatching(/./),
      outputs: [{ label: "yes", tier: "edge", degraded: false }],
    });
    expect(prediction.outputs[0].scores).toHaveLength(1);
    const { outputs, usage } = await client.predict("toy@1", ["maybe", "yes"], { cache: "bypass" });
    expect(outputs).toMatchObject([
      { label: "no", tier: "region" },
      { label: "yes", tier: "edge" },
    ]);
    expect(usage.tiers).toHaveLength(2);
  });

  it("of one image sends its bytes, and of several base64", async () => {
    await publishColorModel(edge.store);
    const client = createTestClient();
    for (const image of [
      RED,
      RED.buffer.slice(RED.byteOffset, RED.byteOffset + RED.byteLength),
      new Blob([RED], { type: "image/jpeg" }),
    ]) {
      expect(
        (await client.predict("colours", image, { topK: 1, maxTier: "edge" })).outputs[0],
      ).toMatchObject({ label: "red", tier: "edge", scores: [{ label: "red" }] });
    }
    expect(requests.map(({ headers }) => headers.get("content-type"))).toEqual([
      "image/jpeg",
      "image/jpeg",
      "image/jpeg",
    ]);
    const { outputs } = await client.predict("colours", [BLUE, new Blob([RED])]);
    expect(outputs.map(({ label }) => label)).toEqual(["blue", "red"]);
    expect(await catchRejection(client.predict("colours", new Blob([RED])))).toMatchObject({
      code: "invalid_input",
    });
  });
});

describe("the requests and errors of a prediction", () => {
  it("sends key, deadline and the caller's headers", async () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await createTestClient({ key: "secret", deadlineMs: 500, roundTripMs: 100 }).predict(
      "toy",
      "yes",
      {
        headers: { traceparent },
      },
    );
    expect(Object.fromEntries(requests[0]?.headers ?? [])).toMatchObject({
      authorization: "Bearer secret",
      "x-deadline-ms": "400",
      traceparent,
    });
  });

  it("that is rejected has the server's problem", async () => {
    expect(await catchRejection(createTestClient().predict("nothing", "yes"))).toMatchObject({
      name: "EdgeTierError",
      code: "model_not_found",
      status: 404,
      remedy: expect.stringMatching(/./),
      requestId: expect.stringMatching(/./),
    });
    edge.isStoreDown = true;
    edge.clock.advance(60_000);
    expect(await catchRejection(createTestClient().predict("other", "yes"))).toMatchObject({
      code: "model_store_unavailable",
      status: 503,
      retryable: true,
    });
  });
});

describe("a client with an answer store", () => {
  it("revalidates a text with its ETag, without a second inference", async () => {
    const client = createTestClient({ responseCache: createResponseCache() });
    const first = await client.predict("toy", "maybe & more?");
    const again = await client.predict("toy", "maybe & more?");
    expect(again).toEqual({ ...first, source: "client", requestId: again.requestId });
    expect(requests.map(({ method }) => method)).toEqual(["GET", "GET"]);
    expect(requests[0]?.headers.get("if-none-match")).toBeNull();
    expect(requests[1]?.headers.get("if-none-match")).toMatch(/^".+"$/);
    expect(edge.regionRequests).toHaveLength(1);
    expect((await client.predict("toy", "maybe & more?", { topK: 1 })).source).not.toBe("client");
  });

  it("does not use the stored answer of another version", async () => {
    const responseCache = createResponseCache();
    await createTestClient({ responseCache }).predict("toy", "yes");
    const storedAnswer = await responseCache.get(
      "http://edge.test/v1/models/toy/predict?input=yes",
    );
    responseCache.set("http://edge.test/v1/models/toy/predict?input=yes", {
      etag: '"of another version"',
      body: storedAnswer?.body ?? "",
    });
    expect((await createTestClient({ responseCache }).predict("toy", "yes")).source).toBe("l1");
  });

  it("uses stored answers offline, if enabled", async () => {
    const responseCache = createResponseCache();
    const first = await createTestClient({ responseCache }).predict("toy", "yes");
    const unreachable = { "http://edge.test": () => Response.error() };
    expect(
      await createTestClient(
        { responseCache, staleIfError: true },
        { "http://edge.test": () => new Response(null, { status: 502 }) },
      ).predict("toy", "yes"),
    ).toEqual({ ...first, source: "offline", requestId: undefined });
    expect(
      await catchRejection(createTestClient({ responseCache }, unreachable).predict("toy", "yes")),
    ).toBeInstanceOf(Error);
    expect(
      await catchRejection(
        createTestClient({ responseCache, staleIfError: true }, unreachable).predict("toy", "no"),
      ),
    ).toBeInstanceOf(Error);
    expect(
      await catchRejection(
        createTestClient({ responseCache, staleIfError: true }).predict("toy", "yes", {
          signal: AbortSignal.abort("left"),
        }),
      ),
    ).toBe("left");
  });
});

describe("the answer store of a client", () => {
  it("posts long texts, several texts, and requests without cache", async () => {
    const client = createTestClient({ responseCache: createResponseCache() });
    for (const call of [
      () => client.predict("toy", "x".repeat(1_001)),
      () => client.predict("toy", ["yes"]),
      () => client.predict("toy", "yes", { cache: "bypass" }),
    ])
      await catchRejection(call());
    expect(requests.map(({ method }) => method)).toEqual(["POST", "POST", "POST"]);
  });

  it("evicts the least recently used answers", async () => {
    const responseCache = createResponseCache(2);
    for (const key of ["a", "b"]) responseCache.set(key, { etag: key, body: key });
    await responseCache.get("a");
    responseCache.set("c", { etag: "c", body: "c" });
    expect(
      await Promise.all(["a", "b", "c"].map(async (key) => (await responseCache.get(key))?.etag)),
    ).toEqual(["a", undefined, "c"]);
  });
});

describe("tensors, vectors and lists", () => {
  it("infers in binary with every datatype", async () => {
    await publishTensorModel(edge.store, "identity", graphs.identity);
    const data = (datatype: (typeof IDENTITY_DATATYPES)[number]) =>
      (typedArrays[datatype] as { from(values: readonly unknown[]): unknown }).from(
        datatype.endsWith("INT64") ? [0n, 1n, (1n << 62n) + 1n] : [0, 1, 1],
      );
    const inputs = Object.fromEntries(
      IDENTITY_DATATYPES.map((datatype) => [
        `${datatype.toLowerCase()}_in`,
        { datatype, shape: [3], data: data(datatype) } as Tensor,
      ]),
    );
    const answer = await createTestClient().infer("identity", inputs, {
      outputs: [{ name: "int64_out" }, { name: "fp16_out" }],
    });
    expect(answer).toEqual({
      model: "identity",
      version: "1",
      region: undefined,
      parameters: { tier: "edge" },
      outputs: { int64_out: inputs["int64_in"], fp16_out: inputs["fp16_in"] },
    });
    const { outputs } = await createTestClient().infer("identity", inputs);
    for (const datatype of IDENTITY_DATATYPES)
      expect(outputs[`${datatype.toLowerCase()}_out`], datatype).toEqual(
        inputs[`${datatype.toLowerCase()}_in`],
      );
    expect(await catchRejection(createTestClient().infer("nothing", {}))).toMatchObject({
      status: 400,
      code: "http_400",
      detail: expect.stringMatching(/nothing/),
    });
  });

  it("embeds", async () => {
    await publishEmbeddingModel(edge.store);
    const { vectors, model, tokens } = await createTestClient().embed(["good", "bad"], {
      model: "vectors",
    });
    expect({ model, tokens }).toEqual({ model: "vectors@1", tokens: 6 });
    expect(vectors).toHaveLength(2);
    expect(Array.from(vectors[0] ?? [])).toEqual(
      unit(4, 4, 0, 0).map((value) => expect.closeTo(value, 6) as number),
    );
    expect(
      await catchRejection(createTestClient().embed("good", { model: "vectors", dimensions: 9 })),
    ).toMatchObject({ code: "invalid_dimensions", status: 400 });
  });

  it("lists models and regions", async () => {
    const client = createTestClient();
    expect(await client.models()).toEqual([{ model: "toy", aliases: { stable: 1 } }]);
    expect(await client.model("toy@stable")).toMatchObject({
      model: "toy",
      version: 1,
      tiers: [{ id: "edge" }, { id: "region" }],
    });
    expect(await client.regions()).toEqual([]);
  });
});

const region = (id: string, fields: object = {}) => ({
  id,
  place: null,
  url: `http://${id}.test`,
  health: "healthy",
  distanceKm: 1,
  latencyMs: null,
  ...fields,
});
const createRegionList = (...regions: object[]) => Response.json({ regions } as RegionList);
/** Response of a region, for any request. */
const createRegionResponse = () =>
  Response.json({
    model_name: "toy",
    model_version: "7",
    outputs: [{ name: "y", datatype: "INT64", shape: [1, 2], data: [[1, "9007199254740993"]] }],
  });
const inferYes = (client: ReturnType<typeof createTestClient>) =>
  client.infer("toy", {
    input: { datatype: "BYTES", shape: [1], data: [new TextEncoder().encode("yes")] },
  });

/** A client of an edge that lists these regions. @param responses by region origin */
function createDirectClient(
  regions: readonly object[],
  responses: Readonly<Record<string, () => Response>>,
) {
  const client = createClient({
    url: "http://edge.test",
    key: "secret",
    maxRetries: 0,
    prefersNearestRegion: true,
    clock: edge.clock,
    async fetch(input, init) {
      const request = new Request(input, init);
      requests.push(request.clone());
      const { origin, pathname } = new URL(request.url);
      return pathname === "/v1/regions"
        ? createRegionList(...regions)
        : await (responses[origin]?.() ?? edge.app.request(request));
    },
  });
  return {
    client,
    listHosts: () =>
      requests.map(({ url }) => new URL(url).host + (url.endsWith("/v1/regions") ? " list" : "")),
  };
}

describe("a client that calls regions directly", () => {
  it("calls the nearest healthy public region, without the edge's key", async () => {
    const regions = [
      region("ill", { health: "unhealthy" }),
      region("private", { url: undefined }),
      region("near"),
      region("far"),
    ];
    const { client, listHosts } = createDirectClient(regions, {
      "http://near.test": createRegionResponse,
    });
    expect(await inferYes(client)).toEqual({
      model: "toy",
      version: "7",
      region: "near",
      parameters: {},
      outputs: {
        y: { datatype: "INT64", shape: [1, 2], data: BigInt64Array.of(1n, 9_007_199_254_740_993n) },
      },
    });
    await inferYes(client);
    expect(listHosts()).toEqual(["edge.test list", "near.test", "near.test"]);
    expect(requests.map(({ headers }) => headers.get("authorization"))).toEqual([
      "Bearer secret",
      null,
      null,
    ]);
  });

  it.each([
    ["rejects clients", () => new Response("{}", { status: 401 })],
    ["is saturated", () => new Response("{}", { status: 503 })],
    [
      "cannot be reached",
      () => {
        throw new TypeError("connection refused");
      },
    ],
    ["is not a region", () => new Response("<h1>hello</h1>")],
  ])(
    "falls back to the edge if a region %s, and avoids that region for a while",
    async (_name, respond) => {
      const { client, listHosts } = createDirectClient([region("near")], {
        "http://near.test": respond,
      });
      for (let call = 0; call < 2; call++)
        expect(await inferYes(client)).toMatchObject({ model: "toy", region: undefined });
      expect(listHosts()).toEqual(["edge.test list", "near.test", "edge.test", "edge.test"]);
      edge.clock.advance(60_000);
      await inferYes(client);
      expect(listHosts().slice(4)).toEqual(["edge.test list", "near.test", "edge.test"]);
    },
  );
});

describe("the rejections and aliases of a client that calls regions directly", () => {
  it("returns a region's rejection of an invalid request", async () => {
    const { client } = createDirectClient([region("near")], {
      "http://near.test": () => Response.json({ error: "unexpected shape" }, { status: 400 }),
    });
    expect(await catchRejection(inferYes(client))).toMatchObject({
      status: 400,
      detail: "unexpected shape",
    });
  });

  it("sends requests for unknown aliases to the edge only", async () => {
    const { client, listHosts } = createDirectClient([region("near")], {
      "http://near.test": createRegionResponse,
    });
    await catchRejection(client.infer("toy@canary", {}));
    expect(listHosts()).toEqual(["edge.test"]);
  });
});
