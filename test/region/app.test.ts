// HTTP interface of the region: correct responses, Triton's statuses, and rejection of every invalid request.
// The file is long because all its requests share one region, which must report none of them as a server failure.
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
const inferOutputs = async (path: string, body: BodyInit, headers?: Record<string, string>) => {
  const response = await call(path, postRequest(body, headers));
  expect(response).toMatchObject({ status: 200 });
  return response.body.outputs;
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

const text = { name: "input", shape: [1], datatype: "BYTES", data: ["good"] };
const inputsBody = (...inputs: object[]) => JSON.stringify({ inputs });
const goodRequest = () => postRequest(createTextBody(["good"]));

interface Rejection {
  readonly path?: string;
  readonly init: RequestInit;
  readonly status: number;
  readonly code: string;
  /** Values that the message must contain. */
  readonly values?: RegExp;
}

const badModelOrVersion: [title: string, rejection: Rejection][] = [
  [
    "an unknown alias",
    {
      path: "/v2/models/mood/versions/nobody/infer",
      init: goodRequest(),
      status: 404,
      code: "alias_not_found",
      values: /"nobody"/,
    },
  ],
  [
    "version 0",
    {
      path: "/v2/models/mood/versions/0/infer",
      init: goodRequest(),
      status: 400,
      code: "invalid_model_name",
    },
  ],
  [
    "a path as the model name",
    {
      path: "/v2/models/..%2f..%2fetc/infer",
      init: goodRequest(),
      status: 400,
      code: "model_not_found",
    },
  ],
  [
    "NUL as the model name",
    { path: "/v2/models/%00/infer", init: goodRequest(), status: 400, code: "model_not_found" },
  ],
  [
    "a broken escape as the model name",
    { path: "/v2/models/%zz/infer", init: goodRequest(), status: 400, code: "model_not_found" },
  ],
  [
    "a model name of 256 characters",
    {
      path: `/v2/models/${"a".repeat(256)}/infer`,
      init: goodRequest(),
      status: 400,
      code: "model_not_found",
    },
  ],
];

const badBodies: [title: string, rejection: Rejection][] = [
  [
    "invalid UTF-8",
    {
      init: postRequest(Uint8Array.of(0x22, 0xff, 0x22)),
      status: 400,
      code: "invalid_utf8",
      values: /UTF-8/,
    },
  ],
  [
    "a multipart body",
    {
      init: postRequest("x", { "content-type": "multipart/form-data; boundary=x" }),
      status: 415,
      code: "unsupported_media_type",
      values: /multipart/,
    },
  ],
  [
    "a body one byte above the limit",
    {
      init: postRequest(createTextBody([""]).padEnd(4_097), { "content-length": "4097" }),
      status: 413,
      code: "body_too_large",
      values: /4096/,
    },
  ],
  [
    "a body above the limit without content-length",
    {
      init: postRequest(createTextBody([""]).padEnd(4_097)),
      status: 413,
      code: "body_too_large",
      values: /4096/,
    },
  ],
  [
    "a body above the limit after decompression",
    {
      init: postRequest(gzipSync(Buffer.alloc(10_000_000)), { "content-encoding": "gzip" }),
      status: 413,
      code: "body_too_large",
      values: /4096/,
    },
  ],
  [
    "invalid gzip",
    {
      init: postRequest("not gzip", { "content-encoding": "gzip" }),
      status: 400,
      code: "invalid_request",
    },
  ],
];

const badInputs: [title: string, rejection: Rejection][] = [
  [
    "a duplicate input",
    {
      init: postRequest(inputsBody(text, text)),
      status: 400,
      code: "invalid_tensor",
      values: /'input'/,
    },
  ],
  [
    "a second input",
    {
      init: postRequest(inputsBody(text, { ...text, name: "more" })),
      status: 400,
      code: "invalid_tensor",
      values: /more/,
    },
  ],
  [
    "zero rows",
    {
      init: postRequest(inputsBody({ ...text, shape: [0], data: [] })),
      status: 400,
      code: "invalid_tensor",
      values: /\[0\]/,
    },
  ],
  [
    "rows of two elements",
    {
      init: postRequest(inputsBody({ ...text, shape: [1, 2], data: ["a", "b"] })),
      status: 400,
      code: "invalid_tensor",
      values: /\[1, 2\]/,
    },
  ],
  [
    "a scalar",
    {
      init: postRequest(inputsBody({ ...text, shape: [] })),
      status: 400,
      code: "invalid_tensor",
      values: /\[\]/,
    },
  ],
  [
    "too many rows",
    {
      init: postRequest(createTextBody(["a", "b", "c", "d", "e"])),
      status: 413,
      code: "too_many_inputs",
      values: /\b5\b.*\b4\b/,
    },
  ],
  [
    "an empty text",
    {
      init: postRequest(createTextBody(["good", " "])),
      status: 400,
      code: "empty_text",
      values: /\b1\b/,
    },
  ],
  [
    "a text that is too long",
    {
      init: postRequest(createTextBody(["x".repeat(65)])),
      status: 413,
      code: "input_too_large",
      values: /\b65\b.*\b64\b/,
    },
  ],
  [
    "an unknown tier",
    {
      init: postRequest(createTextBody(["good"], { parameters: { tier: "light" } })),
      status: 400,
      code: "no_such_tier",
      values: /"light".*heavy/,
    },
  ],
  [
    "a huge parameter",
    {
      init: postRequest(createTextBody(["good"], { parameters: { tier: "x".repeat(3_000) } })),
      status: 400,
      code: "no_such_tier",
    },
  ],
];

describe("the infer route", () => {
  it("answers the task input with the graph's raw outputs, row by row", async () => {
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

  it("accepts a column of texts, and the graph's own tensors", async () => {
    const column = {
      inputs: [{ name: "input", shape: [2, 1], datatype: "BYTES", data: [["good"], ["bad"]] }],
    };
    expect(await inferOutputs(infer, JSON.stringify(column))).toMatchObject([
      { shape: [2, 2], data: [1, 0, 0, 1] },
    ]);
    const graphTensors = ["attention_mask", "input_ids"].map((name) => ({
      name,
      shape: [1, 2],
      datatype: "INT64",
      data: name === "input_ids" ? [6, 7] : [1, 0],
    }));
    expect(await inferOutputs(infer, JSON.stringify({ inputs: graphTensors }))).toMatchObject([
      { shape: [1, 2], data: [2, -1] },
    ]);
  });
});

describe("the infer route with binary data", () => {
  it("accepts and returns binary tensors, and returns classes instead of numbers", async () => {
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
    expect(await inferOutputs(infer, createTextBody(["good", "bad"], classes))).toEqual([
      {
        name: "logits",
        datatype: "BYTES",
        shape: [2, 1],
        data: ["1.000000:0:good", "1.000000:1:bad"],
      },
    ]);
  });
});

describe("the infer route with classes and raw requests", () => {
  it("returns the classes of a tensor model with its labels", async () => {
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
    expect(await inferOutputs("/v2/models/matmul/infer", body(1))).toEqual([
      { name: "y", datatype: "BYTES", shape: [2, 1], data: ["44:1:more", "74:1:more"] },
    ]);
    expect(await inferOutputs("/v2/models/matmul/infer", body(9))).toMatchObject([
      { shape: [2, 2], data: ["44:1:more", "2:0:less", "74:1:more", "-35:0:less"] },
    ]);
  });

  it("accepts a raw binary request", async () => {
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
});

describe("the infer route with options", () => {
  it("selects the model by alias, version and tier", async () => {
    const servedBy = async (path: string, rest = {}) => {
      const { body } = await call(path, postRequest(createTextBody(["good"], rest)));
      return { version: body.model_version, tier: body.parameters.tier };
    };
    expect(await servedBy(infer)).toEqual({ version: "1", tier: "heavy" });
    expect(await servedBy("/v2/models/mood/versions/2/infer")).toEqual({
      version: "2",
      tier: "heavy",
    });
    expect(
      await servedBy("/v2/models/mood/versions/canary/infer", { parameters: { tier: "light" } }),
    ).toEqual({ version: "2", tier: "light" });
  });

  it("returns the requested outputs", async () => {
    expect(
      await inferOutputs(infer, createTextBody(["good"], { outputs: [{ name: "logits" }] })),
    ).toMatchObject([{ name: "logits" }]);
  });

  it.each([
    ["none", {}],
    ["curl's default", { "content-type": "application/x-www-form-urlencoded" }],
    ["JSON in capitals, with a charset", { "content-type": "Application/JSON; charset=utf-8" }],
    ["a vendor's JSON", { "content-type": "application/vnd.kserve+json" }],
  ])("accepts a body with content type: %s", async (_title, headers) => {
    expect(
      await inferOutputs(infer, new TextEncoder().encode(createTextBody(["good"])), headers),
    ).toMatchObject([{ data: [1, 0] }]);
  });

  it("accepts a compressed body", async () => {
    expect(
      await inferOutputs(infer, gzipSync(createTextBody(["good"])), { "content-encoding": "gzip" }),
    ).toMatchObject([{ data: [1, 0] }]);
  });
});

describe("the server and model routes", () => {
  it("report metadata, health and readiness", async () => {
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

  it("report a model as ready only once it is loaded, and load it on a readiness query", async () => {
    const fresh = createRegionFixture();
    await publishMoodModel(fresh.store);
    const first = await fresh.app.request("/v2/models/mood/versions/1/ready");
    expect({ status: first.status, body: await first.json() }).toEqual({
      status: 400,
      body: { error: expect.stringContaining("mood") },
    });
    await expect
      .poll(async () => (await fresh.app.request("/v2/models/mood/versions/1/ready")).status)
      .toBe(200);
  });
});

describe("a region with invalid requests", () => {
  it.each([...badModelOrVersion, ...badBodies, ...badInputs])(
    "rejects %s, then answers the next request correctly",
    async (_title, { path = infer, init, status, code, values = /./ }) => {
      const response = await call(path, init);
      expect({ status: response.status, code: region.errorCodes.at(-1) }).toEqual({ status, code });
      expect(response.body).toEqual({ error: expect.stringMatching(values) });
      expect(response.body.error.length).toBeLessThan(1_000);
      expect(await inferOutputs(infer, createTextBody(["good"]))).toMatchObject([{ data: [1, 0] }]);
    },
  );

  it("rejects an unknown path with 404", async () => {
    const response = await call("/v1/nothing");
    expect(response).toMatchObject({
      status: 404,
      body: { error: expect.stringContaining("/v1/nothing") },
    });
    expect(Object.keys(response.body)).toEqual(["error"]);
  });

  it("reports the allowed method in `allow`", async () => {
    expect((await call(infer)).headers.get("allow")).toBe("POST");
  });

  it("accepts a body of exactly the limit", async () => {
    expect(
      await inferOutputs(infer, createTextBody(["good"]).padEnd(4_096), {
        "content-length": "4096",
      }),
    ).toHaveLength(1);
    expect(await inferOutputs(infer, createTextBody(["good"]).padEnd(4_096))).toHaveLength(1);
  });

  it("reports none of the requests above as a server failure", () => {
    expect(region.failures.filter((failure) => !String(failure.error).includes("Binary"))).toEqual(
      [],
    );
  });
});

describe("an internal error of the region", () => {
  it("becomes a 500 without details, and is reported with the ids of the request", async () => {
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
    expect({ status: response.status, body: await response.json() }).toEqual({
      status: 500,
      body: { error: expect.not.stringContaining("secret") },
    });
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

describe("a request timeout", () => {
  it("starts at the arrival of the request, includes loading, and cancels the work", async () => {
    const clock = new ManualClock();
    const region = createRegionFixture({ clock });
    await publishMoodModel(region.store);
    const path = "/v2/models/mood/versions/1/infer";
    const inferWithTimeout = async (microseconds: number, whileLoading: () => void) => {
      const pending = region.app.request(
        path,
        postRequest(createTextBody(["good"], { parameters: { timeout: microseconds } })),
      );
      whileLoading();
      const response = await pending;
      return { status: response.status, code: region.errorCodes.at(-1) };
    };
    expect(await inferWithTimeout(50_000, () => clock.advance(50))).toEqual({
      status: 503,
      code: "request_expired",
    });
    expect(await inferWithTimeout(50_000, () => clock.advance(49))).toEqual({
      status: 200,
      code: undefined,
    });
    expect(await inferWithTimeout(0, () => clock.advance(1_000_000))).toEqual({
      status: 200,
      code: undefined,
    });
  });
});
