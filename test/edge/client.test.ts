// The client against the edge's application in workerd: what it asks, and what it makes of the answers.
import { beforeEach, describe, expect, it } from "vitest";
import tensorDeployment from "../../dist/test/tensors/deployment.mjs";
import {
  type ClientOptions,
  createAnswerStore,
  createClient,
  type Tensor,
} from "../../src/client/index.ts";
import { typedArrays } from "../../src/core/tensor.ts";
import type { RegionList } from "../../src/protocol/region-list.ts";
import toy from "../fixtures/toy.onnx";
import { publishColorModel } from "../support/color-model.ts";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { sampleImage } from "../support/sample-images.ts";
import { IDENTITY_DATATYPES, publishTensorModel } from "../support/tensor-model.ts";
import { publishEmbeddingModel, unit } from "../support/embedding-model.ts";
import { fullDeployment } from "./full-engine.ts";
import { graphs } from "./infer-requests.ts";

const { images } = tensorDeployment;
const RED = sampleImage("jpeg, red").file;
const BLUE = sampleImage("png, blue").file;

let edge: EdgeUnderTest;
let asked: Request[];
beforeEach(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), { ...fullDeployment, images });
  asked = [];
});

/** @param answers in place of the edge's, by origin */
const createTestClient = (
  options: Partial<ClientOptions> = {},
  answers: Readonly<Record<string, () => Response>> = {},
) =>
  createClient({
    url: "http://edge.test",
    retries: 0,
    ...options,
    async fetch(input, init) {
      const request = new Request(input, init);
      asked.push(request.clone());
      return await (answers[new URL(request.url).origin]?.() ?? edge.app.request(request));
    },
  });
const rejectionOf = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("a prediction", () => {
  it("of one text has one output, and of several one for each", async () => {
    const client = createTestClient();
    const one = await client.predict("toy", "yes", { topK: 1 });
    expect(one).toMatchObject({
      model: "toy",
      version: 1,
      source: "miss",
      requestId: expect.stringMatching(/./),
      outputs: [{ label: "yes", tier: "edge", degraded: false }],
    });
    expect(one.outputs[0].scores).toHaveLength(1);
    const { outputs, usage } = await client.predict("toy@1", ["maybe", "yes"], { cache: "bypass" });
    expect(outputs.map(({ label, tier }) => [label, tier])).toEqual([
      ["no", "region"],
      ["yes", "edge"],
    ]);
    expect(usage.tiers).toHaveLength(2);
  });

  it("of one image sends it as it is, and of several in base64", async () => {
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
    expect(asked.map(({ headers }) => headers.get("content-type"))).toEqual([
      "image/jpeg",
      "image/jpeg",
      "image/jpeg",
    ]);
    const { outputs } = await client.predict("colours", [BLUE, new Blob([RED])]);
    expect(outputs.map(({ label }) => label)).toEqual(["blue", "red"]);
    expect(await rejectionOf(client.predict("colours", new Blob([RED])))).toMatchObject({
      code: "invalid_input",
    });
  });

  it("carries key, deadline and the caller's headers", async () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await createTestClient({ key: "secret", deadlineMs: 500, wayMs: 100 }).predict("toy", "yes", {
      headers: { traceparent },
    });
    expect(Object.fromEntries(asked[0]?.headers ?? [])).toMatchObject({
      authorization: "Bearer secret",
      "x-deadline-ms": "400",
      traceparent,
    });
  });

  it("that is refused has the server's problem", async () => {
    expect(await rejectionOf(createTestClient().predict("nothing", "yes"))).toMatchObject({
      name: "EdgeTierError",
      code: "model_not_found",
      status: 404,
      remedy: expect.stringMatching(/./),
      requestId: expect.stringMatching(/./),
    });
    edge.isStoreDown = true;
    edge.clock.advance(60_000);
    expect(await rejectionOf(createTestClient().predict("other", "yes"))).toMatchObject({
      code: "model_store_unavailable",
      status: 503,
      retryable: true,
    });
  });
});

describe("with a store of answers", () => {
  it("a text is asked for by its ETag, and costs no bytes and no inference the second time", async () => {
    const client = createTestClient({ answers: createAnswerStore() });
    const first = await client.predict("toy", "maybe & more?");
    const again = await client.predict("toy", "maybe & more?");
    expect(again).toEqual({ ...first, source: "client", requestId: again.requestId });
    expect(asked.map(({ method, headers }) => [method, headers.get("if-none-match")])).toEqual([
      ["GET", null],
      ["GET", expect.stringMatching(/^".+"$/)],
    ]);
    expect(edge.regionRequests).toHaveLength(1);
    expect((await client.predict("toy", "maybe & more?", { topK: 1 })).source).not.toBe("client");
  });

  it("another version's answer is another one", async () => {
    const answers = createAnswerStore();
    await createTestClient({ answers }).predict("toy", "yes");
    const kept = await answers.get("http://edge.test/v1/models/toy/predict?input=yes");
    answers.set("http://edge.test/v1/models/toy/predict?input=yes", {
      etag: '"of another version"',
      body: kept?.body ?? "",
    });
    expect((await createTestClient({ answers }).predict("toy", "yes")).source).toBe("l1");
  });

  it("a kept answer serves offline, if that is wanted", async () => {
    const answers = createAnswerStore();
    const first = await createTestClient({ answers }).predict("toy", "yes");
    const dead = { "http://edge.test": () => Response.error() };
    expect(
      await createTestClient(
        { answers, offline: true },
        { "http://edge.test": () => new Response(null, { status: 502 }) },
      ).predict("toy", "yes"),
    ).toEqual({ ...first, source: "offline", requestId: undefined });
    expect(
      await rejectionOf(createTestClient({ answers }, dead).predict("toy", "yes")),
    ).toBeInstanceOf(Error);
    expect(
      await rejectionOf(createTestClient({ answers, offline: true }, dead).predict("toy", "no")),
    ).toBeInstanceOf(Error);
    expect(
      await rejectionOf(
        createTestClient({ answers, offline: true }).predict("toy", "yes", {
          signal: AbortSignal.abort("left"),
        }),
      ),
    ).toBe("left");
  });

  it("long texts, several, and what asks for no cache are posted", async () => {
    const client = createTestClient({ answers: createAnswerStore() });
    for (const call of [
      () => client.predict("toy", "x".repeat(1_001)),
      () => client.predict("toy", ["yes"]),
      () => client.predict("toy", "yes", { cache: "bypass" }),
    ])
      await rejectionOf(call());
    expect(asked.map(({ method }) => method)).toEqual(["POST", "POST", "POST"]);
  });

  it("the answers that were not used for longest go", async () => {
    const answers = createAnswerStore(2);
    for (const key of ["a", "b"]) answers.set(key, { etag: key, body: key });
    await answers.get("a");
    answers.set("c", { etag: "c", body: "c" });
    expect(
      await Promise.all(["a", "b", "c"].map(async (key) => (await answers.get(key))?.etag)),
    ).toEqual(["a", undefined, "c"]);
  });
});

describe("tensors, vectors and lists", () => {
  it("infers in binary, in every datatype", async () => {
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
    expect(await rejectionOf(createTestClient().infer("nothing", {}))).toMatchObject({
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
    expect([model, tokens, vectors.length]).toEqual(["vectors@1", 6, 2]);
    expect(Array.from(vectors[0] ?? [])).toEqual(
      unit(4, 4, 0, 0).map((one) => expect.closeTo(one, 6) as number),
    );
    expect(
      await rejectionOf(createTestClient().embed("good", { model: "vectors", dimensions: 9 })),
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

describe("asking regions directly", () => {
  const region = (id: string, more: object = {}) => ({
    id,
    place: null,
    url: `http://${id}.test`,
    health: "healthy",
    distanceKm: 1,
    latencyMs: null,
    ...more,
  });
  const listed = (...regions: object[]) => Response.json({ regions } as RegionList);
  /** Of a server that answers in JSON whatever it is asked for. */
  const inference = () =>
    Response.json({
      model_name: "toy",
      model_version: "7",
      outputs: [{ name: "y", datatype: "INT64", shape: [1, 2], data: [[1, "9007199254740993"]] }],
    });
  const ask = (client: ReturnType<typeof createTestClient>) =>
    client.infer("toy", {
      input: { datatype: "BYTES", shape: [1], data: [new TextEncoder().encode("yes")] },
    });

  /** An edge that lists these regions, and regions that answer as they do. */
  function directClient(
    regions: readonly object[],
    answers: Readonly<Record<string, () => Response>>,
  ) {
    const client = createClient({
      url: "http://edge.test",
      key: "secret",
      retries: 0,
      direct: true,
      clock: edge.clock,
      async fetch(input, init) {
        const request = new Request(input, init);
        asked.push(request.clone());
        const { origin, pathname } = new URL(request.url);
        return pathname === "/v1/regions"
          ? listed(...regions)
          : await (answers[origin]?.() ?? edge.app.request(request));
      },
    });
    return {
      client,
      hosts: () =>
        asked.map(({ url }) => new URL(url).host + (url.endsWith("/v1/regions") ? " list" : "")),
    };
  }

  it("takes the nearest that is well and may be asked, without the edge's key", async () => {
    const regions = [
      region("ill", { health: "unhealthy" }),
      region("private", { url: undefined }),
      region("near"),
      region("far"),
    ];
    const { client, hosts } = directClient(regions, { "http://near.test": inference });
    expect(await ask(client)).toEqual({
      model: "toy",
      version: "7",
      region: "near",
      parameters: {},
      outputs: {
        y: { datatype: "INT64", shape: [1, 2], data: BigInt64Array.of(1n, 9_007_199_254_740_993n) },
      },
    });
    await ask(client);
    expect(hosts()).toEqual(["edge.test list", "near.test", "near.test"]);
    expect(asked.map(({ headers }) => headers.get("authorization"))).toEqual([
      "Bearer secret",
      null,
      null,
    ]);
  });

  it.each([
    ["refuses who is not an edge", () => new Response("{}", { status: 401 })],
    ["is full", () => new Response("{}", { status: 503 })],
    [
      "cannot be reached",
      () => {
        throw new TypeError("connection refused");
      },
    ],
    ["is no region at all", () => new Response("<h1>hello</h1>")],
  ])(
    "goes back to the edge where a region %s, and leaves that one alone for a while",
    async (_what, answer) => {
      const { client, hosts } = directClient([region("near")], { "http://near.test": answer });
      for (let call = 0; call < 2; call++)
        expect(await ask(client)).toMatchObject({ model: "toy", region: undefined });
      expect(hosts()).toEqual(["edge.test list", "near.test", "edge.test", "edge.test"]);
      edge.clock.advance(60_000);
      await ask(client);
      expect(hosts().slice(4)).toEqual(["edge.test list", "near.test", "edge.test"]);
    },
  );

  it("says what is wrong with a request, which the edge would refuse as well", async () => {
    const { client } = directClient([region("near")], {
      "http://near.test": () => Response.json({ error: "unexpected shape" }, { status: 400 }),
    });
    expect(await rejectionOf(ask(client))).toMatchObject({
      status: 400,
      detail: "unexpected shape",
    });
  });

  it("is for the edge alone where an alias is named that regions do not know", async () => {
    const { client, hosts } = directClient([region("near")], { "http://near.test": inference });
    await rejectionOf(client.infer("toy@canary", {}));
    expect(hosts()).toEqual(["edge.test"]);
  });
});
