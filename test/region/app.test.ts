// The region's HTTP interface: right answers, Triton's statuses, and nothing bad that gets through to a model.
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { decodeInferResponse, encodeInferRequest } from "../../src/protocol/open-inference.ts";
import type { Executor } from "../../src/region/server/executor.ts";
import { int8MatMulGraph, publishTensorModel } from "../support/tensor-model.ts";
import {
  createRegionFixture,
  readFixture,
  postRequest,
  publishMoodModel,
  createTextBody,
  type RegionFixture,
} from "./region-fixture.ts";

const infer = "/v2/models/mood/infer";

describe("a region", () => {
  let region: RegionFixture;
  const call = async (path: string, init?: RequestInit) => {
    const response = await region.app.request(path, init);
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === "" ? undefined : JSON.parse(text),
    };
  };
  const logits = async (path: string, body: BodyInit, headers?: Record<string, string>) => {
    const answer = await call(path, postRequest(body, headers));
    expect(answer).toMatchObject({ status: 200 });
    return answer.body.outputs;
  };

  beforeAll(async () => {
    region = createRegionFixture({ maxBodyBytes: 4_096, maxRows: 4 });
    await publishMoodModel(region.store, { version: 1 });
    await publishMoodModel(region.store, {
      version: 2,
      tiers: { light: "bag-of-tokens.onnx", heavy: "bag-of-tokens.onnx" },
    });
    await region.store.writeAliases("mood", { stable: 1, canary: 2 }, undefined);
  });

  describe("answers", () => {
    it("a task's own inputs with the graph's raw outputs, row by row", async () => {
      const { body, headers } = await call(
        infer,
        postRequest(createTextBody(["good", "bad", "greatly good"], { id: "abc" })),
      );
      expect(body).toEqual({
        model_name: "mood",
        model_version: "1",
        id: "abc",
        parameters: { tier: "heavy" },
        outputs: [
          { name: "logits", datatype: "FP32", shape: [3, 2], data: [1, 0, 0, 1, 3.5, -0.75] },
        ],
      });
      expect(headers.get("content-type")).toBe("application/json");
      expect(headers.get("x-request-id")).toMatch(/./);
    });

    it("inputs as a column, and the graph's own tensors", async () => {
      const column = {
        inputs: [{ name: "input", shape: [2, 1], datatype: "BYTES", data: [["good"], ["bad"]] }],
      };
      expect(await logits(infer, JSON.stringify(column))).toMatchObject([
        { shape: [2, 2], data: [1, 0, 0, 1] },
      ]);
      const own = ["attention_mask", "input_ids"].map((name) => ({
        name,
        shape: [1, 2],
        datatype: "INT64",
        data: name === "input_ids" ? [6, 7] : [1, 0],
      }));
      expect(await logits(infer, JSON.stringify({ inputs: own }))).toMatchObject([
        { shape: [1, 2], data: [2, -1] },
      ]);
    });

    it("binary tensors, in and out, and classes in place of numbers", async () => {
      const request = encodeInferRequest(
        {
          inputs: {
            input: {
              datatype: "BYTES",
              shape: [2],
              data: ["good", "bad"].map((text) => new TextEncoder().encode(text)),
            },
          },
          parameters: { binary_data_output: true },
        },
        true,
      );
      const headers = {
        "content-type": "application/octet-stream",
        "inference-header-content-length": String(request.jsonBytes),
      };
      const response = await region.app.request(infer, postRequest(request.body, headers));
      expect(response.headers.get("content-type")).toBe("application/octet-stream");
      const { outputs } = decodeInferResponse(
        new Uint8Array(await response.arrayBuffer()),
        Number(response.headers.get("inference-header-content-length")),
      );
      expect(outputs).toEqual({
        logits: { datatype: "FP32", shape: [2, 2], data: Float32Array.of(1, 0, 0, 1) },
      });
      const classes = { outputs: [{ name: "logits", parameters: { classification: 1 } }] };
      expect(await logits(infer, createTextBody(["good", "bad"], classes))).toEqual([
        {
          name: "logits",
          datatype: "BYTES",
          shape: [2, 1],
          data: ["1.000000:0:good", "1.000000:1:bad"],
        },
      ]);
    });

    it("a tensor model's classes, by its labels", async () => {
      const graph = int8MatMulGraph(await readFixture("int8-matmul.onnx"));
      await publishTensorModel(region.store, "matmul", graph, {
        places: ["region"],
        labels: ["less", "more"],
      });
      const x = { name: "x", shape: [2, 3], datatype: "UINT8", data: [1, 2, 3, 0, 0, 9] };
      const body = (k: number) =>
        JSON.stringify({
          inputs: [x],
          outputs: [{ name: "y", parameters: { classification: k } }],
        });
      expect(await logits("/v2/models/matmul/infer", body(1))).toEqual([
        { name: "y", datatype: "BYTES", shape: [2, 1], data: ["44:1:more", "74:1:more"] },
      ]);
      expect(await logits("/v2/models/matmul/infer", body(9))).toMatchObject([
        { shape: [2, 2], data: ["44:1:more", "2:0:less", "74:1:more", "-35:0:less"] },
      ]);
    });

    it("a raw binary request", async () => {
      const response = await region.app.request(
        infer,
        postRequest("greatly good", { "inference-header-content-length": "0" }),
      );
      const { outputs } = decodeInferResponse(
        new Uint8Array(await response.arrayBuffer()),
        Number(response.headers.get("inference-header-content-length")),
      );
      expect(outputs["logits"]).toEqual({
        datatype: "FP32",
        shape: [1, 2],
        data: Float32Array.of(3.5, -0.75),
      });
    });

    it("by alias, by version, by tier", async () => {
      const servedBy = async (path: string, rest = {}) => {
        const { body } = await call(path, postRequest(createTextBody(["good"], rest)));
        return [body.model_version, body.parameters.tier];
      };
      expect(await servedBy(infer)).toEqual(["1", "heavy"]);
      expect(await servedBy("/v2/models/mood/versions/2/infer")).toEqual(["2", "heavy"]);
      expect(
        await servedBy("/v2/models/mood/versions/canary/infer", { parameters: { tier: "light" } }),
      ).toEqual(["2", "light"]);
    });

    it("with the outputs that were asked for", async () => {
      expect(
        await logits(infer, createTextBody(["good"], { outputs: [{ name: "logits" }] })),
      ).toMatchObject([{ name: "logits" }]);
    });

    it.each([
      ["no type", {}],
      ["curl's", { "content-type": "application/x-www-form-urlencoded" }],
      ["JSON in capitals, with a charset", { "content-type": "Application/JSON; charset=utf-8" }],
      ["a vendor's JSON", { "content-type": "application/vnd.kserve+json" }],
    ])("a body of %s", async (_what, headers) => {
      expect(
        await logits(infer, new TextEncoder().encode(createTextBody(["good"])), headers),
      ).toMatchObject([{ data: [1, 0] }]);
    });

    it("a compressed body", async () => {
      expect(
        await logits(infer, gzipSync(createTextBody(["good"])), { "content-encoding": "gzip" }),
      ).toMatchObject([{ data: [1, 0] }]);
    });

    it("metadata, health and readiness", async () => {
      expect((await call("/v2")).body).toEqual({
        name: "edgetier-region",
        version: "0.0.0",
        extensions: [
          "binary_tensor_data",
          "classification",
          "model_configuration",
          "model_repository",
          "parameters",
          "schedule_policy",
          "statistics",
        ],
      });
      expect((await call("/v2/")).status).toBe(200);
      expect((await call("/v2/health/live")).status).toBe(200);
      expect((await call("/v2/health/ready")).status).toBe(200);
      expect((await call("/v2/models/mood/versions/2")).body).toEqual({
        name: "mood",
        versions: ["1", "2"],
        platform: "onnxruntime_onnx",
        inputs: [{ name: "input", datatype: "BYTES", shape: [-1] }],
        outputs: [{ name: "logits", datatype: "FP32", shape: [-1, 2] }],
      });
    });
  });

  it("says that a model is ready only once it is loaded, and loads it when asked", async () => {
    const fresh = createRegionFixture();
    await publishMoodModel(fresh.store);
    const first = await fresh.app.request("/v2/models/mood/versions/1/ready");
    expect([first.status, await first.json()]).toEqual([
      400,
      { error: expect.stringContaining("not ready") },
    ]);
    await expect
      .poll(async () => (await fresh.app.request("/v2/models/mood/versions/1/ready")).status)
      .toBe(200);
  });

  const one = { name: "input", shape: [1], datatype: "BYTES", data: ["good"] };
  const inputs = (...list: object[]) => JSON.stringify({ inputs: list });
  const big = "x".repeat(4_096);
  const refusals: [
    what: string,
    path: string,
    init: RequestInit | undefined,
    status: number,
    error: RegExp,
  ][] = [
    ["unknown path", "/v1/nothing", undefined, 404, /nothing at/],
    [
      "unknown alias",
      "/v2/models/mood/versions/nobody/infer",
      postRequest(createTextBody(["good"])),
      404,
      /no alias "nobody"/,
    ],
    [
      "version 0",
      "/v2/models/mood/versions/0/infer",
      postRequest(createTextBody(["good"])),
      400,
      /is not a valid model name|unknown model/,
    ],
    [
      "a path as model",
      "/v2/models/..%2f..%2fetc/infer",
      postRequest(createTextBody(["good"])),
      400,
      /is not a valid model name|unknown model/,
    ],
    [
      "NUL as model",
      "/v2/models/%00/infer",
      postRequest(createTextBody(["good"])),
      400,
      /is not a valid model name|unknown model/,
    ],
    [
      "broken escape as model",
      "/v2/models/%zz/infer",
      postRequest(createTextBody(["good"])),
      400,
      /is not a valid model name|unknown model/,
    ],
    [
      "256 characters as model",
      `/v2/models/${"a".repeat(256)}/infer`,
      postRequest(createTextBody(["good"])),
      400,
      /is not a valid model name|unknown model/,
    ],
    ["no UTF-8", infer, postRequest(Uint8Array.of(0x22, 0xff, 0x22)), 400, /not valid UTF-8/],
    [
      "a multipart body",
      infer,
      postRequest("x", { "content-type": "multipart/form-data; boundary=x" }),
      415,
      /multipart/,
    ],
    [
      "a body one byte too large",
      infer,
      postRequest(createTextBody([""]).padEnd(4_097), { "content-length": "4097" }),
      413,
      /larger than 4096/,
    ],
    [
      "a body too large, unannounced",
      infer,
      postRequest(createTextBody([""]).padEnd(4_097)),
      413,
      /larger than 4096/,
    ],
    [
      "a body too large when decompressed",
      infer,
      postRequest(gzipSync(Buffer.alloc(10_000_000)), { "content-encoding": "gzip" }),
      413,
      /larger than 4096/,
    ],
    [
      "broken gzip",
      infer,
      postRequest("not gzip", { "content-encoding": "gzip" }),
      400,
      /cannot be read/,
    ],
    ["the input twice", infer, postRequest(inputs(one, one)), 400, /already exists/],
    [
      "a second input",
      infer,
      postRequest(inputs(one, { ...one, name: "more" })),
      400,
      /"more": it cannot be given together/,
    ],
    ["no rows", infer, postRequest(inputs({ ...one, shape: [0], data: [] })), 400, /n from 1/],
    [
      "rows of two",
      infer,
      postRequest(inputs({ ...one, shape: [1, 2], data: ["a", "b"] })),
      400,
      /\[1, 2\]/,
    ],
    ["a scalar", infer, postRequest(inputs({ ...one, shape: [] })), 400, /shape \[\]/],
    [
      "too many rows",
      infer,
      postRequest(createTextBody(["a", "b", "c", "d", "e"])),
      413,
      /5 inputs; at most 4/,
    ],
    ["an empty text", infer, postRequest(createTextBody(["good", " "])), 400, /Input 1 is empty/],
    [
      "a text too long",
      infer,
      postRequest(createTextBody(["x".repeat(65)])),
      413,
      /\b65\b.*\b64\b/,
    ],
    [
      "an unknown tier",
      infer,
      postRequest(createTextBody(["good"], { parameters: { tier: "light" } })),
      400,
      /no tier "light".*heavy/,
    ],
    [
      "a huge parameter",
      infer,
      postRequest(createTextBody(["good"], { parameters: { tier: big.slice(0, 3_000) } })),
      400,
      /no tier/,
    ],
  ];
  it.each(refusals)("refuses with the reason: %s", async (_what, path, init, status, error) => {
    const answer = await call(path, init);
    expect(answer).toMatchObject({ status, body: { error: expect.stringMatching(error) } });
    expect(Object.keys(answer.body)).toEqual(["error"]);
    expect(answer.body.error.length).toBeLessThan(1_000);
    expect(await logits(infer, createTextBody(["good"]))).toMatchObject([{ data: [1, 0] }]);
  });

  it("names the verb that is possible", async () => {
    expect((await call(infer)).headers.get("allow")).toBe("POST");
  });

  it("takes a body of exactly the limit", async () => {
    expect(
      await logits(infer, createTextBody(["good"]).padEnd(4_096), { "content-length": "4096" }),
    ).toHaveLength(1);
    expect(await logits(infer, createTextBody(["good"]).padEnd(4_096))).toHaveLength(1);
  });

  it("has reported none of all that as a failure of its own", () => {
    expect(region.failures.filter((failure) => !String(failure.error).includes("Binary"))).toEqual(
      [],
    );
  });
});

describe("a failure of the region's own", () => {
  it("is a 500 that tells nothing, and is reported with the ids that the edge sent", async () => {
    const executor: Executor = {
      queueStates: () => [],
      execute: () => Promise.reject(new TypeError("secret")),
    };
    const region = createRegionFixture({ executor });
    await publishMoodModel(region.store);
    const headers = {
      "x-request-id": "req-7",
      traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    };
    const response = await region.app.request(
      "/v2/models/mood/versions/1/infer",
      postRequest(createTextBody(["good"]), headers),
    );
    expect([response.status, await response.json()]).toEqual([
      500,
      { error: expect.not.stringContaining("secret") },
    ]);
    expect(response.headers.get("x-request-id")).toBe("req-7");
    expect(region.failures).toEqual([
      {
        event: "request_failed",
        requestId: "req-7",
        traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
        error: new TypeError("secret"),
      },
    ]);
  });
});

describe("a timeout", () => {
  it("counts from the request's arrival, loading included, and drops the work", async () => {
    const clock = new ManualClock();
    const region = createRegionFixture({ clock });
    await publishMoodModel(region.store);
    const path = "/v2/models/mood/versions/1/infer";
    const ask = async (microseconds: number, whileLoading: () => void) => {
      const pending = region.app.request(
        path,
        postRequest(createTextBody(["good"], { parameters: { timeout: microseconds } })),
      );
      whileLoading();
      const response = await pending;
      return [response.status, (await response.json()).error];
    };
    expect(await ask(50_000, () => clock.advance(50))).toEqual([
      503,
      expect.stringContaining("Request timeout expired"),
    ]);
    expect(await ask(50_000, () => clock.advance(49))).toEqual([200, undefined]);
    expect(await ask(0, () => clock.advance(1_000_000))).toEqual([200, undefined]);
  });
});
