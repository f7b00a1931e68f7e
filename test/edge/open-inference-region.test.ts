// Forwarded requests: Open Inference requests that the edge forwards to the region unchanged.
import { beforeEach, describe, expect, it, vi } from "vitest";
import reference from "../../dist/test/edge/deployment.mjs";
import { encodeInferRequest, JSON_LENGTH_HEADER } from "../../src/protocol/open-inference.ts";
import toy from "../fixtures/toy.onnx";
import {
  type EdgeUnderTest,
  type EdgeUnderTestOptions,
  startEdgeUnderTest,
} from "../support/edge-app.ts";
import { publishTensorModel } from "../support/tensor-model.ts";
import { fullDeployment } from "./full-engine.ts";
import {
  readInferResponse,
  type InferBody,
  graphs,
  post,
  readInferError,
  regionResponse,
  textsInput,
  uint8Input,
} from "./infer-requests.ts";

let edge: EdgeUnderTest;
const start = async (deployment = fullDeployment, options: EdgeUnderTestOptions = {}) =>
  (edge = await startEdgeUnderTest(new Uint8Array(toy), deployment, options));
beforeEach(async () => {
  await start();
});

const get = (path: string) => edge.app.request(path);
const send = (path: string, body: InferBody, headers: Record<string, string> = {}) =>
  post(edge, path, body, headers);

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("a forwarded request", () => {
  it("has the client's body and headers, and the version that the edge resolved", async () => {
    await publishTensorModel(edge.store, "far", graphs.matmul, { places: ["region"], version: 3 });
    const { body, jsonBytes } = encodeInferRequest(
      {
        id: "r-1",
        inputs: { x: { datatype: "UINT8", shape: [1, 3], data: Uint8Array.of(1, 2, 3) } },
      },
      true,
    );
    const regionMessage = encodeInferRequest(
      { inputs: { y: { datatype: "INT32", shape: [1], data: Int32Array.of(7) } } },
      true,
    );
    edge.createRegionResponse = () =>
      new Response(regionMessage.body, {
        headers: {
          "content-type": "application/octet-stream",
          [JSON_LENGTH_HEADER]: String(regionMessage.jsonBytes),
          "set-cookie": "secret=1",
          "content-length": String(regionMessage.body.byteLength),
        },
      });
    const headers = {
      [JSON_LENGTH_HEADER]: String(jsonBytes),
      "content-type": "application/octet-stream",
      traceparent,
      "x-request-id": "r-1",
      "x-deadline-ms": "5000",
      authorization: "Bearer secret",
      "accept-encoding": "gzip",
    };
    const response = await send("/v2/models/far/infer", body, headers);
    expect(new Uint8Array(await response.arrayBuffer())).toEqual(regionMessage.body);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "application/octet-stream",
      [JSON_LENGTH_HEADER]: String(regionMessage.jsonBytes),
      "x-request-id": "r-1",
    });
    expect(response.headers.get("set-cookie")).toBeNull();

    const [sent] = edge.forwardedRequests;
    expect(sent).toMatchObject({
      method: "POST",
      url: "http://region.test/v2/models/far/versions/3/infer",
    });
    expect(new Uint8Array((await sent?.arrayBuffer()) ?? new ArrayBuffer())).toEqual(body);
    expect(Object.fromEntries(sent?.headers ?? [])).toEqual({
      "content-type": "application/octet-stream",
      [JSON_LENGTH_HEADER]: String(jsonBytes),
      traceparent,
      "x-request-id": "r-1",
      "x-deadline-ms": "5000",
      "accept-encoding": "identity",
    });
  });
});

describe("the body of a forwarded request", () => {
  it("is decompressed", async () => {
    const compressed = new Uint8Array(
      await new Response(
        new Blob([JSON.stringify({ inputs: [textsInput("yes")], parameters: { tier: "region" } })])
          .stream()
          .pipeThrough(new CompressionStream("gzip")),
      ).arrayBuffer(),
    );
    expect(
      await readInferResponse(
        await send("/v2/models/toy/infer", compressed, {
          "content-encoding": "gzip",
          "content-type": "application/json",
        }),
      ),
    ).toEqual(regionResponse);
    expect(edge.forwardedRequests[0]?.headers.get("content-encoding")).toBeNull();
    expect(await edge.forwardedRequests[0]?.json()).toMatchObject({
      parameters: { tier: "region" },
    });
  });
});

describe("a request that the edge cannot run is forwarded if it", () => {
  it("has a BYTES tensor, which the engine does not support", async () => {
    await publishTensorModel(edge.store, "words", graphs.strings);
    const infer = () =>
      send("/v2/models/words/infer", { inputs: [{ ...textsInput("é"), name: "x" }] });
    expect(await readInferResponse(await infer())).toEqual(regionResponse);
    expect(await (await get("/v1/models/words")).json()).toMatchObject({
      tiers: [
        { edge: { status: "unsupported", how: "not", reason: expect.stringContaining("BYTES") } },
        {},
      ],
    });

    await publishTensorModel(edge.store, "only-words", graphs.strings, { places: ["edge"] });
    expect(
      await readInferError(
        await send("/v2/models/only-words/infer", { inputs: [{ ...textsInput("é"), name: "x" }] }),
      ),
    ).toEqual({ status: 503, error: expect.stringContaining("BYTES") });
  });

  it("has an output of the region's graph only", async () => {
    await publishTensorModel(edge.store, "matmul", graphs.matmul, {
      edit: (tier) =>
        tier.place === "region"
          ? {
              ...tier,
              outputs: [...tier.outputs, { name: "hidden", datatype: "FP32", shape: [-1] }],
            }
          : tier,
    });
    const infer = (name: string) =>
      send("/v2/models/matmul/infer", { inputs: [uint8Input(1, 2, 3)], outputs: [{ name }] });
    expect((await readInferResponse(await infer("y"))).model).toBe("matmul");
    expect(await readInferResponse(await infer("hidden"))).toEqual(regionResponse);
    expect(await readInferError(await infer("nothing"))).toEqual({
      status: 400,
      error: expect.stringContaining("'nothing'"),
    });
  });
});

describe("a request that the edge fails to run is forwarded if it", () => {
  it("is for a model without a snapshot on a stripped engine, unless it names the tier", async () => {
    await start({ ...reference, bundled: [] });
    await publishTensorModel(edge.store, "matmul", graphs.matmul);
    expect(
      await readInferResponse(
        await send("/v2/models/matmul/infer", { inputs: [uint8Input(1, 2, 3)] }),
      ),
    ).toEqual(regionResponse);
    expect(
      await readInferError(
        await send("/v2/models/matmul/infer", {
          inputs: [uint8Input(1, 2, 3)],
          parameters: { tier: "edge" },
        }),
      ),
    ).toEqual({ status: 503, error: expect.stringContaining("edge") });
    expect(await (await get("/v2/models/matmul")).json()).toMatchObject({
      inputs: graphs.matmul.inputs,
    });
  });

  it("may have a text, and fails with 503 if the region is unavailable too", async () => {
    await start({ ...reference, bundled: [] });
    const infer = () => send("/v2/models/toy/infer", { inputs: [textsInput("yes")] });
    expect((await readInferResponse(await infer())).parameters).toEqual({ tier: "region" });
    edge.regionBehavior = "down";
    const response = await infer();
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await readInferError(response)).toEqual({ status: 503, error: expect.any(String) });
  });

  it("exceeds the edge's memory budget", async () => {
    await start({ ...fullDeployment, sessionBudgetBytes: 32 * 1024 * 1024 });
    await publishTensorModel(edge.store, "zeros", graphs.zeros);
    const infer = (n: number) =>
      send("/v2/models/zeros/infer", {
        inputs: [{ name: "n", datatype: "INT64", shape: [1], data: [n] }],
      });
    expect((await readInferResponse(await infer(3))).outputs["y"]?.data).toEqual(
      new Float32Array(3),
    );
    expect(await readInferResponse(await infer(2 ** 26))).toEqual(regionResponse);
    expect((await readInferResponse(await infer(2))).parameters).toEqual({ tier: "edge" });

    const without = await startEdgeUnderTest(
      new Uint8Array(toy),
      { ...fullDeployment, sessionBudgetBytes: 32 * 1024 * 1024 },
      { withoutRegion: true },
    );
    await publishTensorModel(without.store, "zeros", graphs.zeros);
    edge = without;
    expect((await infer(2 ** 26)).status).toBe(500);
    expect((await infer(2)).status).toBe(200);
  });
});

describe("the response to a forwarded request", () => {
  it("returns the region's rejections unchanged", async () => {
    await publishTensorModel(edge.store, "far", graphs.matmul, { places: ["region"] });
    const infer = () => send("/v2/models/far/infer", { inputs: [uint8Input(1, 2, 3)] });
    edge.createRegionResponse = () => Response.json({ error: "unexpected shape" }, { status: 400 });
    expect(await readInferError(await infer())).toEqual({ status: 400, error: "unexpected shape" });
    edge.createRegionResponse = () =>
      Response.json(
        { error: "Exceeds maximum queue size" },
        { status: 503, headers: { "retry-after": "2" } },
      );
    const full = await infer();
    expect(full.headers.get("retry-after")).toBe("2");
    expect(await readInferError(full)).toEqual({
      status: 503,
      error: "Exceeds maximum queue size",
    });
  });

  it.each<[name: string, respond: () => Response, status: number]>([
    [
      "a gateway's error page",
      () =>
        new Response("<h1>Bad Gateway</h1>", {
          status: 502,
          headers: { "content-type": "text/html" },
        }),
      503,
    ],
    [
      "a redirect",
      () => new Response(null, { status: 302, headers: { location: "/elsewhere" } }),
      503,
    ],
    ["a proxy's rejection", () => new Response("too large", { status: 413 }), 502],
  ])("does not return responses of intermediaries: %s", async (_name, respond, status) => {
    await publishTensorModel(edge.store, "far", graphs.matmul, { places: ["region"] });
    edge.createRegionResponse = respond;
    const response = await send("/v2/models/far/infer", { inputs: [uint8Input(1, 2, 3)] });
    expect(await readInferError(response)).toMatchObject({ status });
  });
});

describe("a forwarded request without a region", () => {
  it("fails with 503 while the region is unavailable, hangs or is not configured", async () => {
    const publish = () =>
      publishTensorModel(edge.store, "far", graphs.matmul, { places: ["region"] });
    const infer = (parameters: object = {}) =>
      send("/v2/models/far/infer", { inputs: [uint8Input(1, 2, 3)], parameters });
    await publish();
    edge.regionBehavior = "down";
    const down = await infer();
    expect(down.headers.get("retry-after")).toBe("1");
    expect(await readInferError(down)).toEqual({ status: 503, error: expect.any(String) });

    edge.regionBehavior = "hangs";
    for (const [parameters, budgetMs] of [
      [{ timeout: 150_000 }, 150],
      [{}, 1000],
      [{ timeout: 2 ** 53 - 1 }, 600_000],
    ] as const) {
      const before = edge.forwardedRequests.length;
      const waiting = infer(parameters);
      await vi.waitFor(() => expect(edge.forwardedRequests.length).toBe(before + 1));
      expect(edge.forwardedRequests.at(-1)?.headers.get("x-deadline-ms")).toBe(String(budgetMs));
      edge.clock.advance(budgetMs);
      expect(await readInferError(await waiting)).toEqual({
        status: 503,
        error: expect.stringContaining(`${budgetMs} ms`),
      });
    }
    // The call's own timer fires before the clock reaches the deadline.
    expect(await readInferError(await infer({ timeout: 50_000 }))).toEqual({
      status: 503,
      error: expect.stringContaining("50 ms"),
    });

    await start(fullDeployment, { withoutRegion: true });
    await publish();
    expect(await readInferError(await infer())).toEqual({ status: 503, error: expect.any(String) });
  });
});
