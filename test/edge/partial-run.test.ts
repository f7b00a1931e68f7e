// Partial run: an uncertain edge sends the region its activation or the input, whichever is smaller.
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
/** 310 bytes. */
const GRAY = sampleImage("jpeg, grey").file;
/** 110 bytes. */
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

/** Response of a region. */
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

/** Reads all requests to the region: tensors to resume from, and inputs. */
async function readRegionRequests(): Promise<{
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

describe("an uncertain input", () => {
  it("is sent as its activation if that is smaller", async () => {
    const { outputs, usage } = await predict(GRAY);
    expect(outputs[0]).toMatchObject({ label: "green", tier: "region", degraded: false });
    expect(usage.tiers).toEqual([
      { tier: "edge", inputs: 1 },
      { tier: "region", inputs: 1 },
    ]);
    const { resumed, bodyBytes, inputs } = await readRegionRequests();
    expect(bodyBytes).toEqual([3]); // the file has 310 bytes
    expect(inputs).toEqual([]);
    expect(resumed).toEqual([
      { activation: { datatype: "UINT8", shape: [1, 3, 1, 1], data: expect.any(Uint8Array) } },
    ]);
    expect(edge.forwardedRequests[0]?.url).toMatch(/\/v2\/models\/staged\/versions\/1\/infer$/);
  });

  it("is sent unchanged if that is smaller", async () => {
    await start({ cutAt: "pixels" });
    await predict(SMALL);
    expect(await readRegionRequests()).toEqual({ resumed: [], bodyBytes: [], inputs: [[SMALL]] });
  });

  it("is sent by the smaller total of several inputs", async () => {
    await start({ cutAt: "pixels" });
    edge.createRegionResponse = () => confidentResponse("green", 2);
    await predict(SMALL, GRAY); // 384 bytes against 420 and their lengths
    await predict(SMALL, SMALL); // against 220
    const { resumed, bodyBytes, inputs } = await readRegionRequests();
    expect(resumed).toMatchObject([{ activation: { shape: [2, 3, 8, 8] } }]);
    expect(bodyBytes).toEqual([384]);
    expect(inputs).toEqual([[SMALL, SMALL]]);
  });

  it("is sent without the rows of confident inputs", async () => {
    await predict(GRAY);
    const { outputs } = await predict(RED, GRAY);
    expect(outputs).toMatchObject([
      { label: "red", tier: "edge" },
      { label: "green", tier: "region" },
    ]);
    const { resumed } = await readRegionRequests();
    expect(resumed[1]).toEqual(resumed[0]);
  });

  it("is sent as its activation under /v2 too", async () => {
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
    expect(answer.outputs).toMatchObject([{ name: "logits", data: [0, 9, 0] }]); // the activation is not an output of the cascade
    expect((await readRegionRequests()).bodyBytes).toEqual([3]);
  });
});

describe("the input itself is sent", () => {
  it("by an edge that cannot run its tier", async () => {
    await start({}, fullDeployment);
    const { outputs, usage } = await predict(GRAY);
    expect(outputs[0]?.tier).toBe("region");
    expect(usage.tiers[0]?.error).toBe("no_image_decoder");
    expect(await readRegionRequests()).toEqual({ resumed: [], bodyBytes: [], inputs: [[GRAY]] });
  });

  it("to a region that rejects the activation, and from then on directly", async () => {
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
    const { resumed, inputs } = await readRegionRequests();
    expect(resumed).toHaveLength(1);
    expect(inputs).toEqual([[GRAY], [GRAY]]);
  });

  it("not to an unavailable region: the edge's answer is returned as degraded", async () => {
    edge.regionBehavior = "down";
    const { outputs, usage } = await predict(GRAY);
    expect(outputs[0]).toMatchObject({ tier: "edge", degraded: true });
    expect(usage.tiers[1]?.error).toBe("region_unavailable");
    expect(edge.regionRequests).toEqual([]);
    edge.regionBehavior = "up";
    await predict(GRAY);
    expect((await readRegionRequests()).resumed).toHaveLength(2);
  });
});
