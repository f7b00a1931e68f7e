// Embeddings: POST /v1/embeddings in workerd, on the real engine. One file, because all tests share the model and its vectors.
import { beforeEach, describe, expect, it } from "vitest";
import { fromBase64 } from "../../src/core/base64.ts";
import {
  embeddingsProblemSchema,
  embeddingsResponseSchema,
} from "../../src/protocol/embeddings.ts";
import { publishModel } from "../../src/registry/publish.ts";
import toy from "../fixtures/toy.onnx";
import { asTenant } from "../support/as-tenant.ts";
import {
  type EdgeUnderTest,
  type EdgeUnderTestOptions,
  startEdgeUnderTest,
} from "../support/edge-app.ts";
import {
  publishEmbeddingModel,
  unit,
  type EmbeddingModelOptions,
  embeddingProject,
} from "../support/embedding-model.ts";
import { fullDeployment } from "./full-engine.ts";

// The mean of the tokens' rows has the direction of their sum, which includes [CLS] and [SEP].
const GOOD = unit(4, 4, 0, 0);
const BAD = unit(1, -2, 4, 0);
const GREATLY = unit(7, 1, 0, 9);
const [CLS, SEP, GOOD_ID, BAD_ID] = [2, 3, 4, 5];

let edge: EdgeUnderTest;
const start = async (
  model: EmbeddingModelOptions = {},
  options: EdgeUnderTestOptions = {},
  sessionBudgetBytes = fullDeployment.sessionBudgetBytes,
) => {
  edge = await startEdgeUnderTest(
    new Uint8Array(toy),
    { ...fullDeployment, sessionBudgetBytes },
    options,
  );
  await publishEmbeddingModel(edge.store, model);
};
beforeEach(() => start());

const post = async (body: unknown, headers: Record<string, string> = {}) =>
  await edge.app.request("/v1/embeddings", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
const embed = async (fields: object, headers?: Record<string, string>) =>
  await post({ model: "vectors", ...fields }, headers);

async function readEmbeddings(response: Response) {
  expect(response.status, await response.clone().text()).toBe(200);
  return embeddingsResponseSchema.parse(await response.json());
}
const readVectors = async (response: Response) =>
  (await readEmbeddings(response)).data.map(({ embedding }) => embedding as number[]);
const closeToVector = (vector: readonly number[]) =>
  vector.map((value) => expect.closeTo(value, 6) as number);

describe("an embeddings request", () => {
  it("for one text returns its unit vector and token count", async () => {
    const response = await embed({ input: "good", user: "u-1" }, { "x-request-id": "r-1" });
    expect(await readEmbeddings(response.clone())).toEqual({
      object: "list",
      data: [{ object: "embedding", index: 0, embedding: closeToVector(GOOD) }],
      model: "vectors@1",
      usage: { prompt_tokens: 3, total_tokens: 3 },
    });
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "x-request-id": "r-1",
      "x-edgetier-tier": "edge",
      "x-edgetier-cache": "miss",
      "cache-control": "no-store",
    });
  });

  it("for several texts returns vectors in order, and the total token count", async () => {
    const { data, usage } = await readEmbeddings(
      await embed({ input: ["bad", "Greatly", "good"] }),
    );
    expect(data).toEqual(
      [BAD, GREATLY, GOOD].map((vector, index) => ({
        object: "embedding",
        index,
        embedding: closeToVector(vector),
      })),
    );
    expect(usage.prompt_tokens).toBe(3 + 4 + 3);
  });

  it("accepts token ids, with or without special tokens", async () => {
    expect(await readVectors(await embed({ input: [GOOD_ID] }))).toEqual([closeToVector(GOOD)]);
    expect(await readVectors(await embed({ input: [[CLS, BAD_ID, SEP], [BAD_ID]] }))).toEqual([
      closeToVector(BAD),
      closeToVector(BAD),
    ]);
  });

  it("returns the same numbers in base64, as FP32", async () => {
    const [floats = []] = await readVectors(
      await embed({ input: "greatly", encoding_format: "float" }),
    );
    const { data } = await readEmbeddings(
      await embed({ input: "greatly", encoding_format: "base64" }),
    );
    const bytes = fromBase64(String(data[0]?.embedding)) ?? new Uint8Array();
    const view = new DataView(bytes.buffer);
    expect(
      Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(index * 4, true)),
    ).toEqual(floats.map(Math.fround));
  });
});

describe("the vectors of an embeddings request", () => {
  it("for fewer dimensions returns the first ones, as a unit vector", async () => {
    expect(await readVectors(await embed({ input: "bad", dimensions: 2 }))).toEqual([
      closeToVector(unit(1, -2)),
    ]);
    expect(await readVectors(await embed({ input: "bad", dimensions: 4 }))).toEqual([
      closeToVector(BAD),
    ]);
  });

  it("truncates a long text to the model's token limit", async () => {
    const { data, usage } = await readEmbeddings(await embed({ input: "good ".repeat(20) }));
    expect(usage.prompt_tokens).toBe(8);
    expect(data[0]?.embedding).toEqual(closeToVector(unit(19, 19, 0, 0)));
  });

  it("accepts a version and an alias", async () => {
    for (const model of ["vectors@1", "vectors@stable"])
      expect((await readEmbeddings(await embed({ input: "good", model }))).model).toBe("vectors@1");
  });
});

it("ignores canaries, unless the request names one", async () => {
  await publishModel(edge.store, embeddingProject({ pooling: "cls" }), { alias: "canary" });
  const before = await edge.store.readAliases("vectors");
  await edge.store.writeAliases(
    "vectors",
    { ...before?.aliases, canary: { version: 2, weight: 1 } },
    before?.etag,
  );
  edge.clock.advance(60_000);
  expect((await readEmbeddings(await embed({ input: "good" }))).model).toBe("vectors@1");
  expect(
    (await readEmbeddings(await embed({ input: "good", model: "vectors@canary" }))).model,
  ).toBe("vectors@2");
});

describe("the manifest of an embedding model", () => {
  it("defines pooling and normalization", async () => {
    await start({ pooling: "cls" });
    expect(await readVectors(await embed({ input: "bad" }))).toEqual([[1, 0, 0, 0]]);
    await start({ pooling: "graph", normalize: false });
    expect(await readVectors(await embed({ input: "bad" }))).toEqual([[1, -2, 4, 0]]);
    expect(await readVectors(await embed({ input: "bad", dimensions: 2 }))).toEqual([[1, -2]]);
    await start({ pooling: "mean", normalize: false });
    expect(await readVectors(await embed({ input: "bad" }))).toEqual([
      closeToVector([1 / 3, -2 / 3, 4 / 3, 0]),
    ]);
  });
});

describe("the cache of embeddings", () => {
  it("has one entry per input, for any other inputs and dimensions", async () => {
    const readCacheResult = async (fields: object) =>
      (await embed(fields)).headers.get("x-edgetier-cache");
    expect(await readCacheResult({ input: ["good", "bad"] })).toBe("miss");
    expect(await readCacheResult({ input: "bad", dimensions: 3 })).toBe("l1");
    expect(await readCacheResult({ input: ["bad", "great"] })).toBe("miss");
    expect(await readCacheResult({ input: "bad", cache: "bypass" })).toBe("bypass");
    expect(await readCacheResult({ input: [BAD_ID] })).toBe("miss"); // another input with the same vector
    const { usage } = await readEmbeddings(await embed({ input: ["bad", "good"] }));
    expect(usage.prompt_tokens).toBe(6);
  });

  it("honors `cache-control` unless the body has `cache`", async () => {
    const readCacheResult = async (headers: Record<string, string>, fields: object = {}) =>
      (await embed({ input: "good", ...fields }, headers)).headers.get("x-edgetier-cache");
    expect((await embed({ input: "good" }, { "cache-control": "only-if-cached" })).status).toBe(
      504,
    );
    expect(await readCacheResult({ "cache-control": "no-store" })).toBe("bypass");
    expect(await readCacheResult({})).toBe("miss");
    expect(await readCacheResult({ "cache-control": "no-cache" })).toBe("miss");
    expect(await readCacheResult({ "cache-control": "no-cache" }, { cache: "use" })).toBe("l1");
  });

  it("is separate for each tenant", async () => {
    const readCacheResult = async (tenant: string) => {
      const request = {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"model":"vectors","input":"good"}',
      };
      return (await asTenant(tenant, edge.app).request("/v1/embeddings", request)).headers.get(
        "x-edgetier-cache",
      );
    };
    for (const tenant of ["acme", "globex", ""]) {
      expect(await readCacheResult(tenant), tenant).toBe("miss");
      expect(await readCacheResult(tenant), tenant).toBe("l1");
    }
  });
});

describe("a region tier", () => {
  /** Each text's only word twice, then padding that must not count. */
  const computeRegionOutputs: NonNullable<EdgeUnderTestOptions["computeRegionOutputs"]> = ({
    inputs,
  }) => ({
    states: {
      datatype: "FP32",
      shape: [inputs.length, 6, 4],
      data: Float32Array.from({ length: inputs.length * 24 }, (_, index) =>
        index % 24 >= 12 ? 99 : index % 4 === 0 ? 5 : 0,
      ),
    },
  });

  it("answers from the texts if there is no edge tier", async () => {
    await start({ places: ["region"] }, { computeRegionOutputs });
    const response = await embed({ input: ["good", "bad"] }, { "x-deadline-ms": "700" });
    expect(response.headers.get("x-edgetier-tier")).toBe("region");
    expect(await readVectors(response)).toEqual([
      [1, 0, 0, 0],
      [1, 0, 0, 0],
    ]);
    expect(edge.regionRequests).toMatchObject([
      { model: "vectors", version: 1, tier: "region", timeoutMs: 700 },
    ]);
    expect(edge.regionRequests[0]?.inputs.map((bytes) => new TextDecoder().decode(bytes))).toEqual([
      "good",
      "bad",
    ]);
  });

  it("receives token ids unchanged", async () => {
    await start({ places: ["region"] }, { computeRegionOutputs });
    await readEmbeddings(await embed({ input: [GOOD_ID] }));
    expect(edge.regionRequests[0]?.inputs).toEqual([Uint8Array.of(0xff, GOOD_ID, 0, 0, 0)]);
  });

  it("answers only if the edge tier cannot run", async () => {
    await start({ places: ["edge", "region"] }, { computeRegionOutputs });
    expect((await embed({ input: "good" })).headers.get("x-edgetier-tier")).toBe("edge");
    expect(edge.regionRequests).toEqual([]);
    await start({ places: ["edge", "region"] }, { computeRegionOutputs }, 1_000_000);
    expect((await embed({ input: "good" })).headers.get("x-edgetier-tier")).toBe("region");
  });

  it("that hangs is abandoned at the deadline", async () => {
    await start({ places: ["region"] });
    edge.regionBehavior = "hangs";
    const waiting = embed({ input: "good" }, { "x-deadline-ms": "200" });
    await expect.poll(() => edge.regionRequests.length).toBe(1);
    edge.clock.advance(200);
    expect((await waiting).status).toBe(504);
  });
});

const repeatGood = (length: number) => Array.from({ length }, () => "good");
const invalidRequests: [
  name: string,
  send: () => Promise<Response>,
  status: number,
  code: string,
][] = [
  ["no text", () => embed({ input: "" }), 400, "empty_text"],
  ["white space among other texts", () => embed({ input: ["good", " "] }), 400, "empty_text"],
  ["an empty array", () => embed({ input: [] }), 400, "invalid_request"],
  ["an empty array of tokens", () => embed({ input: [[]] }), 400, "invalid_request"],
  ["texts among tokens", () => embed({ input: [GOOD_ID, "good"] }), 400, "invalid_request"],
  ["a token that is not an integer", () => embed({ input: [1.5] }), 400, "invalid_request"],
  [
    "a token outside the vocabulary",
    () => embed({ input: [[GOOD_ID], [8]] }),
    400,
    "invalid_tokens",
  ],
  ["no input", () => embed({}), 400, "invalid_request"],
  ["another field", () => embed({ input: "good", inputs: "good" }), 400, "invalid_request"],
  [
    "an unknown encoding",
    () => embed({ input: "good", encoding_format: "hex" }),
    400,
    "invalid_request",
  ],
  ["no dimensions at all", () => embed({ input: "good", dimensions: 0 }), 400, "invalid_request"],
  [
    "more dimensions than the model has",
    () => embed({ input: "good", dimensions: 5 }),
    400,
    "invalid_dimensions",
  ],
  [
    "a text over the model's limit",
    () => embed({ input: "good".repeat(26) }),
    413,
    "input_too_large",
  ],
  [
    "tokens over the model's limit",
    () => embed({ input: Array(26).fill(GOOD_ID) }),
    413,
    "input_too_large",
  ],
  ["too many inputs", () => embed({ input: repeatGood(5) }), 413, "too_many_inputs"],
  ["a body over the limit", () => embed({ input: "x".repeat(5_000) }), 413, "body_too_large"],
  [
    "half of a surrogate pair",
    () => post('{"model": "vectors", "input": "\\ud800"}'),
    400,
    "invalid_utf8",
  ],
  ["broken JSON", () => post("{"), 400, "invalid_json"],
  [
    "another media type than JSON",
    () => post("good", { "content-type": "text/plain" }),
    415,
    "unsupported_media_type",
  ],
  ["no model, without a default model", () => post({ input: "good" }), 400, "missing_model"],
  [
    "an invalid model name",
    () => embed({ input: "good", model: "no/such" }),
    400,
    "invalid_model_name",
  ],
  ["an unknown model", () => embed({ input: "good", model: "nothing" }), 404, "model_not_found"],
  [
    "a model that returns labels",
    () => embed({ input: "good", model: "toy" }),
    400,
    "gives_no_embeddings",
  ],
  [
    "another method",
    async () => await edge.app.request("/v1/embeddings"),
    405,
    "method_not_allowed",
  ],
];
describe("an invalid embeddings request", () => {
  it.each(invalidRequests)("is rejected: %s", async (_name, send, status, code) => {
    const response = await send();
    expect(response.status).toBe(status);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
    const { error, ...problem } = embeddingsProblemSchema.parse(await response.json());
    expect(problem).toMatchObject({ status, code, retryable: false });
    expect(error).toEqual({
      message: `${problem.detail} ${problem.remedy}`,
      type: "invalid_request_error",
      param: null,
      code,
    });
  });

  it("is rejected for too many tokens, cached ones included", async () => {
    const { usage } = await readEmbeddings(
      await embed({ input: Array(4).fill("good good good good good good") }),
    );
    expect(usage.prompt_tokens).toBe(32);
    await start({}, { maxTokens: 10 });
    await readEmbeddings(await embed({ input: ["good", "bad"] }));
    expect(await (await embed({ input: ["good", "bad", "greatly greatly"] })).json()).toMatchObject(
      {
        status: 413,
        code: "too_many_tokens",
        detail: expect.stringMatching(/\b12\b.*\b10\b/),
      },
    );
  });

  it("is rejected for a prediction by an embedding model", async () => {
    const response = await edge.app.request("/v1/models/vectors/predict?input=good");
    expect(await response.json()).toMatchObject({ status: 400, code: "gives_embeddings" });
  });

  it("gets retry-after if the model store is unavailable", async () => {
    edge.isStoreDown = true;
    const response = await embed({ input: "good" });
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await response.json()).toMatchObject({
      retryable: true,
      error: { type: "server_error", code: "model_store_unavailable" },
    });
  });
});

it("serves an embedding model over /v2 with its graph's outputs", async () => {
  const metadata = await edge.app.request("/v2/models/vectors");
  expect(await metadata.json()).toMatchObject({
    inputs: [{ name: "input", datatype: "BYTES", shape: [-1] }],
    outputs: [{ name: "states" }, { name: "sums", datatype: "FP32", shape: [-1, 4] }],
  });
  const request = {
    inputs: [{ name: "input", datatype: "BYTES", shape: [2], data: ["good", "bad"] }],
    outputs: [{ name: "sums" }],
  };
  const response = await edge.app.request("/v2/models/vectors/infer", {
    method: "POST",
    body: JSON.stringify(request),
  });
  expect(await response.json()).toMatchObject({
    parameters: { tier: "edge" },
    outputs: [{ name: "sums", shape: [2, 4], data: [4, 4, 0, 0, 1, -2, 4, 0] }],
  });
});

it("describes the route in the OpenAPI document", async () => {
  const document = (await (await edge.app.request("/openapi.json")).json()) as {
    paths: Record<string, unknown>;
    components: { schemas: Record<string, unknown> };
  };
  expect(document.paths["/v1/embeddings"]).toMatchObject({
    post: {
      requestBody: {
        content: {
          "application/json": { schema: { $ref: "#/components/schemas/EmbeddingsRequest" } },
        },
      },
    },
  });
  expect(Object.keys(document.components.schemas)).toEqual(
    expect.arrayContaining(["EmbeddingsRequest", "EmbeddingsResponse", "EmbeddingsProblem"]),
  );
});
