// Requests of the Open Inference Protocol that go through the edge to the region, as they came.
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

describe("what goes through to the region", () => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

  it("is a model without an edge tier: body and headers as they came, the version resolved here", async () => {
    await publishTensorModel(edge.store, "far", graphs.matmul, { places: ["region"], version: 3 });
    const { body, jsonBytes } = encodeInferRequest(
      {
        id: "r-1",
        inputs: { x: { datatype: "UINT8", shape: [1, 3], data: Uint8Array.of(1, 2, 3) } },
      },
      true,
    );
    const answer = encodeInferRequest(
      { inputs: { y: { datatype: "INT32", shape: [1], data: Int32Array.of(7) } } },
      true,
    );
    edge.createRegionResponse = () =>
      new Response(answer.body, {
        headers: {
          "content-type": "application/octet-stream",
          [JSON_LENGTH_HEADER]: String(answer.jsonBytes),
          "set-cookie": "secret=1",
          "content-length": String(answer.body.byteLength),
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
    expect(new Uint8Array(await response.arrayBuffer())).toEqual(answer.body);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "application/octet-stream",
      [JSON_LENGTH_HEADER]: String(answer.jsonBytes),
      "x-request-id": "r-1",
    });
    expect(response.headers.get("set-cookie")).toBeNull();

    const [sent] = edge.forwardedRequests;
    expect([sent?.method, sent?.url]).toEqual([
      "POST",
      "http://region.test/v2/models/far/versions/3/infer",
    ]);
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

  it("is sent on decompressed", async () => {
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

  it("is what the engine cannot run: strings", async () => {
    await publishTensorModel(edge.store, "words", graphs.strings);
    const ask = () =>
      send("/v2/models/words/infer", { inputs: [{ ...textsInput("é"), name: "x" }] });
    expect(await readInferResponse(await ask())).toEqual(regionResponse);
    expect(await (await get("/v1/models/words")).json()).toMatchObject({
      tiers: [{ edge: { how: "not", reason: expect.stringContaining("strings") } }, {}],
    });

    await publishTensorModel(edge.store, "only-words", graphs.strings, { places: ["edge"] });
    expect(
      await readInferError(
        await send("/v2/models/only-words/infer", { inputs: [{ ...textsInput("é"), name: "x" }] }),
      ),
    ).toEqual([503, expect.stringContaining("strings")]);
  });

  it("is an output that only the region's graph has", async () => {
    await publishTensorModel(edge.store, "matmul", graphs.matmul, {
      edit: (tier) =>
        tier.place === "region"
          ? {
              ...tier,
              outputs: [...tier.outputs, { name: "hidden", datatype: "FP32", shape: [-1] }],
            }
          : tier,
    });
    const ask = (name: string) =>
      send("/v2/models/matmul/infer", { inputs: [uint8Input(1, 2, 3)], outputs: [{ name }] });
    expect((await readInferResponse(await ask("y"))).model).toBe("matmul");
    expect(await readInferResponse(await ask("hidden"))).toEqual(regionResponse);
    expect(await readInferError(await ask("nothing"))).toEqual([
      400,
      expect.stringContaining("'nothing'"),
    ]);
  });

  it("is what no snapshot lets a cut engine run, unless the tier is named", async () => {
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
    ).toEqual([503, expect.stringContaining("no snapshot")]);
    expect(await (await get("/v2/models/matmul")).json()).toMatchObject({
      inputs: graphs.matmul.inputs,
    });
  });

  it("is a text, too, that this edge cannot answer; and 503 where the region cannot either", async () => {
    await start({ ...reference, bundled: [] });
    const ask = () => send("/v2/models/toy/infer", { inputs: [textsInput("yes")] });
    expect((await readInferResponse(await ask())).parameters).toEqual({ tier: "region" });
    edge.regionBehavior = "down";
    const response = await ask();
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await readInferError(response)).toEqual([503, expect.stringContaining("region")]);
  });

  it("is what fails here: memory that the budget does not allow", async () => {
    await start({ ...fullDeployment, sessionBudgetBytes: 32 * 1024 * 1024 });
    await publishTensorModel(edge.store, "zeros", graphs.zeros);
    const ask = (n: number) =>
      send("/v2/models/zeros/infer", {
        inputs: [{ name: "n", datatype: "INT64", shape: [1], data: [n] }],
      });
    expect((await readInferResponse(await ask(3))).outputs["y"]?.data).toEqual(new Float32Array(3));
    expect(await readInferResponse(await ask(2 ** 26))).toEqual(regionResponse);
    expect((await readInferResponse(await ask(2))).parameters).toEqual({ tier: "edge" });

    const without = await startEdgeUnderTest(
      new Uint8Array(toy),
      { ...fullDeployment, sessionBudgetBytes: 32 * 1024 * 1024 },
      { withoutRegion: true },
    );
    await publishTensorModel(without.store, "zeros", graphs.zeros);
    edge = without;
    expect((await ask(2 ** 26)).status).toBe(500);
    expect((await ask(2)).status).toBe(200);
  });

  it("brings the region's refusals back as they are", async () => {
    await publishTensorModel(edge.store, "far", graphs.matmul, { places: ["region"] });
    const ask = () => send("/v2/models/far/infer", { inputs: [uint8Input(1, 2, 3)] });
    edge.createRegionResponse = () => Response.json({ error: "unexpected shape" }, { status: 400 });
    expect(await readInferError(await ask())).toEqual([400, "unexpected shape"]);
    edge.createRegionResponse = () =>
      Response.json(
        { error: "Exceeds maximum queue size" },
        { status: 503, headers: { "retry-after": "2" } },
      );
    const full = await ask();
    expect(full.headers.get("retry-after")).toBe("2");
    expect(await readInferError(full)).toEqual([503, "Exceeds maximum queue size"]);
  });

  it.each<[what: string, answer: () => Response, status: number]>([
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
    ["a proxy's refusal", () => new Response("too large", { status: 413 }), 502],
  ])(
    "does not pass for the region's what something on the way says: %s",
    async (_what, answer, status) => {
      await publishTensorModel(edge.store, "far", graphs.matmul, { places: ["region"] });
      edge.createRegionResponse = answer;
      expect(
        (
          await readInferError(
            await send("/v2/models/far/infer", { inputs: [uint8Input(1, 2, 3)] }),
          )
        )[0],
      ).toBe(status);
    },
  );

  it("is 503 with retry-after while the region is down or none is configured, and by the deadline when it hangs", async () => {
    const publish = () =>
      publishTensorModel(edge.store, "far", graphs.matmul, { places: ["region"] });
    const ask = (parameters: object = {}) =>
      send("/v2/models/far/infer", { inputs: [uint8Input(1, 2, 3)], parameters });
    await publish();
    edge.regionBehavior = "down";
    const down = await ask();
    expect(down.headers.get("retry-after")).toBe("1");
    expect(await readInferError(down)).toEqual([
      503,
      expect.stringContaining("connection refused"),
    ]);

    edge.regionBehavior = "hangs";
    for (const [parameters, budgetMs] of [
      [{ timeout: 150_000 }, 150],
      [{}, 1000],
      [{ timeout: 2 ** 53 - 1 }, 600_000],
    ] as const) {
      const before = edge.forwardedRequests.length;
      const waiting = ask(parameters);
      await vi.waitFor(() => expect(edge.forwardedRequests.length).toBe(before + 1));
      expect(edge.forwardedRequests.at(-1)?.headers.get("x-deadline-ms")).toBe(String(budgetMs));
      edge.clock.advance(budgetMs);
      expect(await readInferError(await waiting)).toEqual([
        503,
        expect.stringContaining(`${budgetMs} ms`),
      ]);
    }
    // The call's own timer comes before the clock says that the deadline has passed.
    expect(await readInferError(await ask({ timeout: 50_000 }))).toEqual([
      503,
      expect.stringContaining("could answer within 50 ms"),
    ]);

    await start(fullDeployment, { withoutRegion: true });
    await publish();
    expect(await readInferError(await ask())).toEqual([
      503,
      expect.stringContaining("no region is configured"),
    ]);
  });
});
