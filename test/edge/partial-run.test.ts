// Where the edge is not sure and has computed half of a graph: the region is sent the half, or the input, whichever is less.
import { beforeEach, describe, expect, it } from "vitest";
import tensorDeployment from "../../dist/test/tensors/deployment.mjs";
import { toBase64 } from "../../src/core/base64.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import {
  decodeInferRequest,
  encodeInferRequest,
  encodeInferResponse,
  JSON_LENGTH_HEADER,
} from "../../src/protocol/open-inference.ts";
import { type PredictResponse, predictResponseSchema } from "../../src/protocol/predict.ts";
import type { Deployment } from "../../src/runtime/wasm/deployment.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { sampleImage } from "../support/sample-images.ts";
import { publishStagedModel, type StagedModelOptions } from "../support/staged-model.ts";
import { fullDeployment } from "./full-engine.ts";

const { images } = tensorDeployment;
const RED = sampleImage("jpeg, red").file;
/** Of 310 bytes, and of 110. */
const GRAY = sampleImage("jpeg, grey").file;
const SMALL = sampleImage("png, black and white").file;

let edge: EdgeUnderTest;
const start = async (
  options: StagedModelOptions = {},
  deployment: Deployment = { ...fullDeployment, images },
) => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), deployment, {
    computeRegionOutputs: ({ inputs }) => ({ logits: confidentLogits("green", inputs.length) }),
  });
  await publishStagedModel(edge.store, options);
  edge.createRegionResponse = () => confidentResponse("green", 1);
};
beforeEach(() => start());

const COLORS = ["red", "green", "blue"];
const confidentLogits = (label: string, rows: number) => ({
  datatype: "FP32" as const,
  shape: [rows, 3],
  data: Float32Array.from({ length: rows * 3 }, (_, index) =>
    COLORS[index % 3] === label ? 9 : 0,
  ),
});

/** As a region answers. */
function confidentResponse(label: string, rows: number): Response {
  const { body, jsonBytes } = encodeInferResponse(
    { model: "staged", version: "1", outputs: { logits: confidentLogits(label, rows) } },
    () => true,
  );
  return new Response(body, { headers: { [JSON_LENGTH_HEADER]: String(jsonBytes) } });
}

async function predict(...files: readonly Uint8Array[]): Promise<PredictResponse> {
  const body = JSON.stringify({
    inputs: files.map((file) => ({ b64: toBase64(file) })),
    parameters: { cache: "bypass" },
  });
  const response = await edge.app.request("/v1/models/staged/predict", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  expect(response.status, await response.clone().text()).toBe(200);
  return predictResponseSchema.parse(await response.json());
}

/** What went to the region: tensors to go on from, and inputs. */
async function lastRegionRequest(): Promise<{
  readonly resumed: readonly NamedTensors[];
  readonly bodyBytes: readonly number[];
  readonly inputs: readonly (readonly Uint8Array[])[];
}> {
  const bodies = await Promise.all(
    edge.forwardedRequests.map(async (request) => ({
      bytes: new Uint8Array(await request.arrayBuffer()),
      jsonLength: Number(request.headers.get(JSON_LENGTH_HEADER)),
    })),
  );
  return {
    resumed: bodies.map(({ bytes, jsonLength }) => decodeInferRequest(bytes, jsonLength).inputs),
    bodyBytes: bodies.map(({ bytes, jsonLength }) => bytes.byteLength - jsonLength),
    inputs: edge.regionRequests.map(({ inputs }) => inputs),
  };
}

describe("an unsure input", () => {
  it("goes on from the activation, where that is less than the input", async () => {
    const { outputs, usage } = await predict(GRAY);
    expect(outputs[0]).toMatchObject({ label: "green", tier: "region", degraded: false });
    expect(usage.tiers).toEqual([
      { tier: "edge", inputs: 1 },
      { tier: "region", inputs: 1 },
    ]);
    const { resumed, bodyBytes, inputs } = await lastRegionRequest();
    expect([bodyBytes, inputs]).toEqual([[3], []]); // where the file has 310
    expect(resumed).toEqual([
      { activation: { datatype: "UINT8", shape: [1, 3, 1, 1], data: expect.any(Uint8Array) } },
    ]);
    expect(edge.forwardedRequests[0]?.url).toMatch(/\/v2\/models\/staged\/versions\/1\/infer$/);
  });

  it("goes as itself, where that is less", async () => {
    await start({ cutAt: "pixels" });
    await predict(SMALL);
    expect(await lastRegionRequest()).toEqual({ resumed: [], bodyBytes: [], inputs: [[SMALL]] });
  });

  it("among several: the sum of what would be sent decides", async () => {
    await start({ cutAt: "pixels" });
    edge.createRegionResponse = () => confidentResponse("green", 2);
    await predict(SMALL, GRAY); // 384 bytes against 420 and their lengths
    await predict(SMALL, SMALL); // against 220
    const { resumed, bodyBytes, inputs } = await lastRegionRequest();
    expect([resumed.map(({ activation }) => activation?.shape), bodyBytes, inputs]).toEqual([
      [[2, 3, 8, 8]],
      [384],
      [[SMALL, SMALL]],
    ]);
  });

  it("among sure ones takes only its own row along", async () => {
    await predict(GRAY);
    const { outputs } = await predict(RED, GRAY);
    expect(outputs.map(({ label, tier }) => [label, tier])).toEqual([
      ["red", "edge"],
      ["green", "region"],
    ]);
    const { resumed } = await lastRegionRequest();
    expect(resumed[1]).toEqual(resumed[0]);
  });

  it("goes on in the same way under /v2", async () => {
    const { body, jsonBytes } = encodeInferRequest(
      { inputs: { input: { datatype: "BYTES", shape: [1], data: [GRAY] } } },
      true,
    );
    const response = await edge.app.request("/v2/models/staged/infer", {
      method: "POST",
      headers: { [JSON_LENGTH_HEADER]: String(jsonBytes) },
      body,
    });
    const answer = (await response.json()) as { outputs: { name: string; data: number[] }[] };
    expect(answer.outputs.map(({ name, data }) => [name, data])).toEqual([["logits", [0, 9, 0]]]); // and the activation is no output of the cascade
    expect((await lastRegionRequest()).bodyBytes).toEqual([3]);
  });
});

describe("the input is sent", () => {
  it("by an edge that could not compute its tier", async () => {
    await start({}, fullDeployment);
    const { outputs, usage } = await predict(GRAY);
    expect([outputs[0]?.tier, usage.tiers[0]?.error]).toEqual(["region", "no_image_decoder"]);
    expect(await lastRegionRequest()).toEqual({ resumed: [], bodyBytes: [], inputs: [[GRAY]] });
  });

  it("to a region that refuses to go on, in the same request, and from then on at once", async () => {
    edge.createRegionResponse = () =>
      Response.json(
        { error: "unexpected inference input 'activation' for model 'staged'" },
        { status: 400 },
      );
    expect((await predict(GRAY)).outputs[0]).toMatchObject({
      label: "green",
      tier: "region",
      degraded: false,
    });
    await predict(GRAY);
    const { resumed, inputs } = await lastRegionRequest();
    expect([resumed.length, inputs]).toEqual([1, [[GRAY], [GRAY]]]);
  });

  it("not to a region that is down: the edge's answer stands, and says so", async () => {
    edge.regionBehavior = "down";
    const { outputs, usage } = await predict(GRAY);
    expect(outputs[0]).toMatchObject({ tier: "edge", degraded: true });
    expect(usage.tiers[1]?.error).toBe("region_unavailable");
    expect(edge.regionRequests).toEqual([]);
    edge.regionBehavior = "up";
    await predict(GRAY);
    expect((await lastRegionRequest()).resumed).toHaveLength(2);
  });
});
