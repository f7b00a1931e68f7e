// Open Inference Protocol at the edge: metadata, readiness, and requests that the edge answers itself. One file, because all
// tests share the request helpers.
import { beforeEach, describe, expect, it, vi } from "vitest";
import tensorDeployment from "../../dist/test/tensors/deployment.mjs";
import type { Tensor, TensorDataByDatatype } from "../../src/core/tensor.ts";
import { modelDetailSchema } from "../../src/protocol/model-detail.ts";
import { encodeInferRequest, JSON_LENGTH_HEADER } from "../../src/protocol/open-inference.ts";
import toy from "../fixtures/toy.onnx";
import {
  type EdgeUnderTest,
  type EdgeUnderTestOptions,
  startEdgeUnderTest,
} from "../support/edge-app.ts";
import { IDENTITY_DATATYPES, publishTensorModel } from "../support/tensor-model.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";
import {
  readInferResponse,
  type InferBody,
  graphs,
  post,
  readInferError,
  regionResponse,
  textsInput,
  decodeTexts,
  uint8Input,
} from "./infer-requests.ts";
import { readProblem } from "./read-problem.ts";

let edge: EdgeUnderTest;
const start = async (deployment = fullDeployment, options: EdgeUnderTestOptions = {}) =>
  (edge = await startEdgeUnderTest(new Uint8Array(toy), deployment, options));
beforeEach(async () => {
  await start();
});

const get = (path: string) => edge.app.request(path);
const postInfer = (path: string, body: InferBody, headers: Record<string, string> = {}) =>
  post(edge, path, body, headers);
const postToyInfer = (
  inputs: readonly object[],
  fields: object = {},
  headers: Record<string, string> = {},
) => postInfer("/v2/models/toy/infer", { inputs, ...fields }, headers);

describe("server and model metadata", () => {
  it("returns the server's name, version and extensions, with and without a slash", async () => {
    for (const path of ["/v2", "/v2/"]) {
      expect(await (await get(path)).json()).toEqual({
        name: "edgetier",
        version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
        extensions: ["binary_tensor_data", "classification", "parameters"],
      });
    }
  });

  it("answers health without a body, as Triton does", async () => {
    for (const path of ["/v2/health/live", "/v2/health/ready"]) {
      const response = await get(path);
      expect(response.status).toBe(200);
      expect(await response.text()).toBe("");
    }
  });

  it("describes a task model by its task's input and the common outputs", async () => {
    const manifest = await publishToyModel(edge.store, new Uint8Array(toy), { model: "mixed" });
    const [first, second] = manifest.tiers;
    const tierOutputs = [
      { name: "hidden", datatype: "FP32" as const, shape: [-1, 8] },
      { name: "lengths", datatype: "FP32" as const, shape: [-1, -1] },
    ];
    await publishToyModel(edge.store, new Uint8Array(toy), {
      model: "mixed",
      version: 2,
      tiers: [first, second].flatMap((tier, index) =>
        tier === undefined
          ? []
          : [{ ...tier, outputs: [...tier.outputs, ...tierOutputs.slice(index)] }],
      ),
    });
    const described = {
      name: "mixed",
      versions: ["1", "2"],
      platform: "onnxruntime_onnx",
      inputs: [{ name: "input", datatype: "BYTES", shape: [-1] }],
      outputs: [{ name: "logits", datatype: "FP32", shape: [-1, 2] }],
    };
    for (const path of ["/v2/models/mixed", "/v2/models/mixed/versions/1"])
      expect(await (await get(path)).json()).toEqual(described);
  });
});

describe("metadata of a tensor model", () => {
  it("describes a tensor model by its graph's tensors", async () => {
    await publishTensorModel(edge.store, "matmul", graphs.matmul);
    const { inputs, outputs } = graphs.matmul;
    expect(await (await get("/v2/models/matmul")).json()).toEqual({
      name: "matmul",
      versions: ["1"],
      platform: "onnxruntime_onnx",
      inputs,
      outputs,
    });
  });

  it("describes a tensor model under /v1 too, and rejects predictions", async () => {
    await publishTensorModel(edge.store, "matmul", graphs.matmul);
    expect(await (await get("/v1/models")).json()).toMatchObject({
      models: [{ model: "matmul" }, { model: "toy" }],
    });
    expect(await (await get("/v1/models/matmul")).json()).toMatchObject({
      task: "tensor",
      tiers: [
        {
          id: "edge",
          exitConfidence: null,
          temperature: null,
          edge: { status: "plain", how: "plain" },
        },
        { id: "region" },
      ],
    });
    const response = await postInfer(
      "/v1/models/matmul/predict",
      { inputs: "yes" },
      { "content-type": "application/json" },
    );
    expect(await readProblem(response)).toMatchObject({
      status: 400,
      code: "takes_tensors",
      remedy: expect.stringContaining("/v2/models/matmul/infer"),
    });
  });
});

describe("readiness", () => {
  const getReadyStatus = async (model: string) => (await get(`/v2/models/${model}/ready`)).status;

  it("is the edge's if the edge can run a tier", async () => {
    edge.regionBehavior = "down";
    expect(await getReadyStatus("toy")).toBe(200);
    expect((await get("/v2/models/toy/versions/1/ready")).status).toBe(200);
    expect(edge.forwardedRequests).toEqual([]);
  });

  it("is otherwise the region's", async () => {
    await publishTensorModel(edge.store, "far", graphs.matmul, { places: ["region"] });
    await publishTensorModel(edge.store, "words", graphs.strings);
    expect(await getReadyStatus("far")).toBe(200);
    expect(await getReadyStatus("words")).toBe(200);
    expect(edge.forwardedRequests).toMatchObject([
      { method: "GET", url: "http://region.test/v2/models/far/versions/1/ready" },
      { method: "GET", url: "http://region.test/v2/models/words/versions/1/ready" },
    ]);
    edge.createRegionResponse = () => Response.json({ error: "not yet" }, { status: 400 });
    expect(await readInferError(await get("/v2/models/far/ready"))).toEqual({
      status: 400,
      error: expect.stringContaining("far"),
    });
    edge.regionBehavior = "down";
    expect(await getReadyStatus("far")).toBe(400);
  });
});

describe("task inputs", () => {
  it("run through the cascade, with each row from the tier that answered", async () => {
    const response = await postToyInfer(
      [textsInput("maybe", "no", "zzz", "yes")],
      { id: "r-7" },
      { "x-request-id": "from-the-client" },
    );
    expect(response.headers.get("x-edgetier-tier")).toBe("region, edge");
    expect(response.headers.get("x-request-id")).toBe("from-the-client");
    expect(await readInferResponse(response)).toEqual({
      model: "toy",
      version: "1",
      id: "r-7",
      parameters: { tier: "region, edge" },
      outputs: {
        logits: { datatype: "FP32", shape: [4, 2], data: Float32Array.of(0, 9, 0, 6, 0, 9, 6, 0) },
      },
    });
    expect(
      edge.regionRequests.map(({ inputs }) =>
        inputs.map((bytes) => new TextDecoder().decode(bytes)),
      ),
    ).toEqual([["maybe", "zzz"]]);
    expect(edge.forwardedRequests).toEqual([]);
  });
});

describe("the encodings of task inputs", () => {
  it("may be a column, binary, compressed or raw", async () => {
    const yes = { logits: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(6, 0) } };
    const column = await readInferResponse(
      await postToyInfer([{ ...textsInput("yes"), shape: [1, 1] }]),
    );
    expect(column.outputs).toEqual(yes);

    const { body, jsonBytes } = encodeInferRequest(
      {
        inputs: {
          input: { datatype: "BYTES", shape: [1], data: [new TextEncoder().encode("yes")] },
        },
        parameters: { binary_data_output: true },
      },
      true,
    );
    const binary = await postInfer("/v2/models/toy/infer", body, {
      [JSON_LENGTH_HEADER]: String(jsonBytes),
    });
    expect(binary.headers.get(JSON_LENGTH_HEADER)).toMatch(/^\d+$/);
    expect((await readInferResponse(binary)).outputs).toEqual(yes);

    for (const format of ["gzip", "deflate"] as const) {
      const compressed = new Uint8Array(
        await new Response(
          new Blob([body]).stream().pipeThrough(new CompressionStream(format)),
        ).arrayBuffer(),
      );
      expect(
        (
          await readInferResponse(
            await postInfer("/v2/models/toy/infer", compressed, {
              [JSON_LENGTH_HEADER]: String(jsonBytes),
              "content-encoding": format,
            }),
          )
        ).outputs,
      ).toEqual(yes);
    }
    expect(
      (
        await readInferResponse(
          await postInfer("/v2/models/toy/infer", "yes", { [JSON_LENGTH_HEADER]: "0" }),
        )
      ).outputs,
    ).toEqual(yes);
  });
});

describe("the outputs and tiers of task inputs", () => {
  it("return the requested outputs, also as labels", async () => {
    const classified = await readInferResponse(
      await postToyInfer([textsInput("yes", "maybe")], {
        outputs: [{ name: "logits", parameters: { classification: 1 } }],
      }),
    );
    expect(classified.outputs["logits"]).toMatchObject({ datatype: "BYTES", shape: [2, 1] });
    expect(decodeTexts(classified, "logits")).toEqual(["6.000000:0:yes", "9.000000:1:no"]);
    expect(
      await readInferError(
        await postToyInfer([textsInput("yes")], { outputs: [{ name: "hidden" }] }),
      ),
    ).toEqual({ status: 400, error: expect.stringContaining("'hidden'") });
  });

  it("run on the tier that the request names", async () => {
    const { parameters, outputs } = await readInferResponse(
      await postToyInfer([textsInput("maybe", "maybe")], { parameters: { tier: "edge" } }),
    );
    expect(parameters).toEqual({ tier: "edge" });
    expect(outputs["logits"]?.data).toEqual(Float32Array.of(0.8, 0.4, 0.8, 0.4).map(Math.fround));
    expect(edge.regionRequests).toEqual([]);
    expect(
      await readInferResponse(
        await postToyInfer([textsInput("yes")], { parameters: { tier: "region" } }),
      ),
    ).toEqual(regionResponse);
    expect(edge.forwardedRequests).toHaveLength(1);
    expect(
      await readInferError(
        await postToyInfer([textsInput("yes")], { parameters: { tier: "moon" } }),
      ),
    ).toEqual({ status: 400, error: expect.stringContaining("edge, region") });
  });
});

describe("task inputs during faults", () => {
  it("get degraded outputs of the edge if the region is down, or hangs until the deadline", async () => {
    edge.regionBehavior = "down";
    const answer = await readInferResponse(await postToyInfer([textsInput("maybe", "yes")]));
    expect(answer).toMatchObject({
      parameters: { tier: "edge", degraded: true },
      outputs: { logits: { shape: [2, 2] } },
    });

    edge.regionBehavior = "hangs";
    for (const [headers, parameters, budgetMs] of [
      [{ "x-deadline-ms": "200" }, {}, 200],
      [{}, { timeout: 150_000 }, 150],
      [{ "x-deadline-ms": "200" }, { timeout: 150_000 }, 150],
      [{}, {}, 1000],
    ] as const) {
      const before = edge.regionRequests.length;
      const waiting = postToyInfer([textsInput("maybe")], { parameters }, headers);
      await vi.waitFor(() => expect(edge.regionRequests.length).toBe(before + 1));
      expect(edge.regionRequests.at(-1)?.timeoutMs).toBe(budgetMs);
      edge.clock.advance(budgetMs);
      expect((await readInferResponse(await waiting)).parameters).toEqual({
        tier: "edge",
        degraded: true,
      });
    }
  });

  it("do not use the caches of predictions", async () => {
    await edge.predict({ inputs: "maybe" });
    await postToyInfer([textsInput("maybe")]);
    expect(edge.regionRequests).toHaveLength(2);
  });
});

describe("graph tensors", () => {
  beforeEach(async () => {
    await publishTensorModel(edge.store, "matmul", graphs.matmul, { labels: ["left", "right"] });
  });

  it("run at the edge as JSON, binary and raw", async () => {
    const y = { datatype: "INT32", shape: [1, 2], data: Int32Array.of(2, 44) };
    const json = await readInferResponse(
      await postInfer("/v2/models/matmul/infer", { inputs: [uint8Input(1, 2, 3)] }),
    );
    expect(json).toEqual({
      model: "matmul",
      version: "1",
      id: undefined,
      parameters: { tier: "edge" },
      outputs: { y },
    });
    const { body, jsonBytes } = encodeInferRequest(
      {
        inputs: { x: { datatype: "UINT8", shape: [1, 3], data: Uint8Array.of(1, 2, 3) } },
        outputs: [{ name: "y", parameters: { binary_data: true } }],
      },
      true,
    );
    const binary = await postInfer("/v2/models/matmul/versions/1/infer", body, {
      [JSON_LENGTH_HEADER]: String(jsonBytes),
    });
    expect(binary.headers.get("content-type")).toBe("application/octet-stream");
    expect((await readInferResponse(binary)).outputs).toEqual({ y });
    expect(
      (
        await readInferResponse(
          await postInfer("/v2/models/matmul/infer", Uint8Array.of(1, 2, 3), {
            [JSON_LENGTH_HEADER]: "0",
          }),
        )
      ).outputs,
    ).toEqual({ y });
    expect(edge.forwardedRequests).toEqual([]);
  });
});

describe("graph tensors with labels and datatypes", () => {
  beforeEach(async () => {
    await publishTensorModel(edge.store, "matmul", graphs.matmul, { labels: ["left", "right"] });
  });

  it("are classified by the model's labels", async () => {
    const answer = await readInferResponse(
      await postInfer("/v2/models/matmul/infer", {
        inputs: [uint8Input(1, 2, 3)],
        outputs: [{ name: "y", parameters: { classification: 2 } }],
      }),
    );
    expect(decodeTexts(answer, "y")).toEqual(["44:1:right", "2:0:left"]);
  });

  it("are accepted by a text model", async () => {
    const ids = { name: "ids", datatype: "INT32", shape: [1, 1], data: [58] };
    expect(await readInferResponse(await postToyInfer([ids]))).toMatchObject({
      parameters: { tier: "edge" },
      outputs: { logits: { data: Float32Array.of(6, 0) } },
    });
  });

  it("keep every supported datatype exactly", async () => {
    await publishTensorModel(edge.store, "identity", graphs.identity, { places: ["edge"] });
    expect(await inferIdentity()).toEqual(EXTREME_VALUES);
  });
});

describe("graph tensors on a stripped engine", () => {
  it("run on the engine that `engine build` strips for them, except strings", async () => {
    await start(tensorDeployment);
    const publish = (model: keyof typeof graphs) =>
      publishTensorModel(edge.store, model, graphs[model], { labels: ["left", "right"] });
    await Promise.all([publish("identity"), publish("matmul"), publish("strings")]);
    const readEdgeStatus = async (model: string) =>
      modelDetailSchema.parse(await (await get(`/v1/models/${model}`)).json()).tiers[0]?.edge
        ?.status;
    expect(tensorDeployment.engine.kind).toBe("cut");
    expect(await readEdgeStatus("identity")).toBe("bundled");
    expect(await readEdgeStatus("matmul")).toBe("bundled");
    expect(await readEdgeStatus("strings")).toBe("unsupported");
    expect(tensorDeployment.artifacts.size).toBe(3); // labels of two kinds, and a tokenizer

    expect(await inferIdentity()).toEqual(EXTREME_VALUES);
    const classified = await readInferResponse(
      await postInfer("/v2/models/matmul/infer", {
        inputs: [uint8Input(1, 2, 3)],
        outputs: [{ name: "y", parameters: { classification: 1 } }],
      }),
    );
    expect(decodeTexts(classified, "y")).toEqual(["44:1:right"]);
    expect(edge.forwardedRequests).toEqual([]);
    expect(
      await readInferResponse(
        await postInfer("/v2/models/strings/infer", {
          inputs: [{ ...textsInput("é"), name: "x" }],
        }),
      ),
    ).toEqual(regionResponse);
  });
});

describe("graph tensors of other shapes and names", () => {
  beforeEach(async () => {
    await publishTensorModel(edge.store, "matmul", graphs.matmul, { labels: ["left", "right"] });
  });

  it("may have no rows", async () => {
    const { outputs } = await readInferResponse(
      await postInfer("/v2/models/matmul/infer", { inputs: [{ ...uint8Input(), shape: [0, 3] }] }),
    );
    expect(outputs["y"]).toEqual({ datatype: "INT32", shape: [0, 2], data: new Int32Array() });
  });

  it.each([
    ["another datatype", [{ ...uint8Input(1, 2, 3), datatype: "INT8" }], /INT8/],
    ["another shape", [{ ...uint8Input(1, 2, 3), shape: [3, 1] }], /shape/],
    ["another name", [{ ...uint8Input(1, 2, 3), name: "z" }], /'z'/],
    ["an additional input", [uint8Input(1, 2, 3), { ...uint8Input(1, 2, 3), name: "z" }], /'z'/],
    ["no inputs", [], /1/],
  ])("are rejected if they match no tier: %s", async (_name, inputs, error) => {
    expect(await readInferError(await postInfer("/v2/models/matmul/infer", { inputs }))).toEqual({
      status: 400,
      error: expect.stringMatching(error),
    });
    expect(edge.forwardedRequests).toEqual([]);
  });
});

/** Runs the model `identity`. @returns its outputs by datatype */
async function inferIdentity(): Promise<unknown> {
  const inputs = Object.fromEntries(
    IDENTITY_DATATYPES.map((datatype) => [
      `${datatype.toLowerCase()}_in`,
      { datatype, shape: [5], data: EXTREME_VALUES[datatype] } as Tensor,
    ]),
  );
  const { body, jsonBytes } = encodeInferRequest(
    { inputs, parameters: { binary_data_output: true } },
    true,
  );
  const { outputs } = await readInferResponse(
    await postInfer("/v2/models/identity/infer", body, { [JSON_LENGTH_HEADER]: String(jsonBytes) }),
  );
  return Object.fromEntries(Object.values(outputs).map(({ datatype, data }) => [datatype, data]));
}

/** Minimum, maximum and special values of each datatype, all of the length that the graph calls `n`. */
const EXTREME_VALUES: {
  readonly [D in (typeof IDENTITY_DATATYPES)[number]]: TensorDataByDatatype[D];
} = {
  BOOL: Uint8Array.of(0, 1, 0, 1, 1),
  UINT8: Uint8Array.of(0, 1, 127, 128, 255),
  UINT16: Uint16Array.of(0, 1, 32_767, 32_768, 65_535),
  UINT32: Uint32Array.of(0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1),
  UINT64: BigUint64Array.of(0n, 1n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n),
  INT8: Int8Array.of(0, 1, -1, -128, 127),
  INT16: Int16Array.of(0, 1, -1, -32_768, 32_767),
  INT32: Int32Array.of(0, 1, -1, -(2 ** 31), 2 ** 31 - 1),
  INT64: BigInt64Array.of(-1n, 2n ** 53n + 1n, -(2n ** 53n) - 1n, -(2n ** 63n), 2n ** 63n - 1n),
  FP16: Uint16Array.of(0x0001, 0x8000, 0x7c00, 0xfc00, 0x7e01), // the smallest value above 0, -0, Infinity, -Infinity, a NaN
  FP32: Float32Array.of(1e-45, -0, Infinity, -Infinity, Number.NaN),
  FP64: Float64Array.of(Number.MIN_VALUE, -0, Infinity, -Infinity, Number.NaN),
};
