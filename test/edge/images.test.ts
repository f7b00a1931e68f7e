// Images over HTTP in workerd: the deployment's decoders, and all rejections of images.
import { beforeEach, describe, expect, it } from "vitest";
import tensorDeployment from "../../dist/test/tensors/deployment.mjs";
import { toBase64 } from "../../src/core/base64.ts";
import { type PredictResponse, predictResponseSchema } from "../../src/protocol/predict.ts";
import type { Deployment } from "../../src/runtime/wasm/deployment.ts";
import { imageClassificationContract } from "../contract/image-classification.ts";
import toy from "../fixtures/toy.onnx";
import { MAX_IMAGE_BYTES, publishColorModel } from "../support/color-model.ts";
import {
  type EdgeUnderTest,
  MAX_IMAGE_BODY_BYTES,
  startEdgeUnderTest,
} from "../support/edge-app.ts";
import { invalidImages, sampleImage } from "../support/sample-images.ts";
import { fullDeployment } from "./full-engine.ts";
import { readProblem } from "./read-problem.ts";

const { images } = tensorDeployment;
if (images === undefined) throw new Error("The deployment has no image decoders.");
imageClassificationContract("in workerd", images.modules);

const RED = sampleImage("jpeg, red").file;
const BLUE = sampleImage("png, blue").file;
const GRAY = sampleImage("jpeg, grey").file;

let edge: EdgeUnderTest;
const start = async (deployment: Deployment = { ...fullDeployment, images }) => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), deployment);
  await publishColorModel(edge.store);
};
beforeEach(() => start());

const post = async (
  body: Uint8Array<ArrayBuffer> | string,
  mediaType: string,
  path = "/v1/models/colours/predict",
) => await edge.app.request(path, { method: "POST", headers: { "content-type": mediaType }, body });
const postJson = async (inputs: unknown, parameters?: object) =>
  await post(JSON.stringify({ inputs, parameters }), "application/json");
const toBase64Input = (file: Uint8Array) => ({ b64: toBase64(file) });

async function readPrediction(response: Response): Promise<PredictResponse> {
  expect(response.status, await response.clone().text()).toBe(200);
  return predictResponseSchema.parse(await response.json());
}

describe("an image", () => {
  it("is classified at the edge as a JPEG or PNG body", async () => {
    for (const [file, mediaType, label] of [
      [RED, "image/jpeg", "red"],
      [BLUE, "image/png", "blue"],
      [BLUE, "IMAGE/JPEG; x=y", "blue"],
    ] as const) {
      const { outputs, usage } = await readPrediction(await post(file, mediaType));
      expect(outputs[0]).toMatchObject({ label, tier: "edge", degraded: false });
      expect(outputs[0]?.confidence).toBeGreaterThan(0.99);
      expect(usage.tiers.length).toBeLessThanOrEqual(1); // no tier for a cached result, with any media type
    }
    expect(edge.regionRequests).toEqual([]);
  });

  it("goes to the region unchanged if the edge is uncertain", async () => {
    const { outputs } = await readPrediction(
      await postJson([toBase64Input(RED), toBase64Input(GRAY)]),
    );
    expect(outputs).toMatchObject([
      { label: "red", tier: "edge" },
      { label: "green", tier: "region" },
    ]);
    expect(edge.regionRequests.map(({ inputs }) => inputs)).toEqual([[GRAY]]);
  });

  it("has its parameters in the query if it is the body", async () => {
    const { outputs } = await readPrediction(
      await post(GRAY, "image/jpeg", "/v1/models/colours/predict?topK=2&maxTier=edge&cache=bypass"),
    );
    expect(outputs[0]).toMatchObject({ tier: "edge", degraded: false });
    expect(outputs[0]?.scores).toHaveLength(2);
    expect(
      await readProblem(await post(GRAY, "image/jpeg", "/v1/models/colours/predict?topk=2")),
    ).toMatchObject({ status: 400, code: "invalid_request" });
  });
});

describe("an image in caches and regions", () => {
  it("is cached by its bytes", async () => {
    const readCacheResult = async (response: Promise<Response>) =>
      (await response).headers.get("x-edgetier-cache");
    expect(await readCacheResult(post(RED, "image/jpeg"))).toBe("miss");
    expect(await readCacheResult(postJson(toBase64Input(RED)))).toBe("l1");
    expect(await readCacheResult(post(BLUE, "image/png"))).toBe("miss");
  });

  it("goes to the region if the deployment has no decoders", async () => {
    await start(fullDeployment);
    const { outputs, usage } = await readPrediction(await post(RED, "image/jpeg"));
    expect(outputs[0]).toMatchObject({ tier: "region", degraded: false });
    expect(usage.tiers[0]).toEqual({ tier: "edge", inputs: 1, error: "no_image_decoder" });
  });

  it("goes to the region if decoding exceeds the memory limit", async () => {
    await start({ ...fullDeployment, images: { ...images, maxMemoryBytes: 1_000_000 } });
    const { outputs, usage } = await readPrediction(await post(RED, "image/jpeg"));
    expect(outputs[0]).toMatchObject({ tier: "region" });
    expect(usage.tiers[0]?.error).toBe("image_too_large_here");
  });

  it("is an element of a BYTES tensor under /v2", async () => {
    const json = new TextEncoder().encode(
      JSON.stringify({
        inputs: [
          {
            name: "input",
            datatype: "BYTES",
            shape: [1],
            parameters: { binary_data_size: 4 + RED.length },
          },
        ],
      }),
    );
    const body = new Uint8Array([
      ...json,
      ...new Uint8Array(Uint32Array.of(RED.length).buffer),
      ...RED,
    ]);
    const response = await edge.app.request("/v2/models/colours/infer", {
      method: "POST",
      headers: { "inference-header-content-length": String(json.length) },
      body,
    });
    expect(response.status).toBe(200);
    const answer = (await response.json()) as { outputs: { name: string; data: number[] }[] };
    expect(answer.outputs).toMatchObject([{ name: "logits" }]);
    const { data } = answer.outputs[0] as (typeof answer.outputs)[number];
    expect(data.indexOf(Math.max(...data))).toBe(0);
  });
});

const invalidRequests: [name: string, send: () => Promise<Response>, problem: object][] = [
  [
    "a text for an image",
    () => postJson("yes"),
    {
      status: 400,
      code: "invalid_request",
      detail: expect.stringContaining("inputs[0]"),
    },
  ],
  [
    "an image for a text",
    async () =>
      await post(
        JSON.stringify({ inputs: ["yes", toBase64Input(RED)] }),
        "application/json",
        "/v1/models/toy/predict",
      ),
    {
      status: 400,
      code: "invalid_request",
      detail: expect.stringContaining("inputs[1]"),
    },
  ],
  [
    "a text body for an image",
    () => post("yes", "text/plain"),
    {
      status: 415,
      code: "unsupported_media_type",
      remedy: expect.stringContaining("application/json, image/jpeg, image/png"),
    },
  ],
  [
    "an image body for a text",
    () => post(RED, "image/jpeg", "/v1/models/toy/predict"),
    {
      status: 415,
      code: "unsupported_media_type",
      remedy: expect.stringContaining("application/json, text/plain"),
    },
  ],
  [
    "another media type",
    () => post(RED, "image/webp"),
    { status: 415, code: "unsupported_media_type" },
  ],
  [
    "no media type",
    async () => await edge.app.request("/v1/models/colours/predict", { method: "POST", body: RED }),
    { status: 415 },
  ],
  [
    "an image body for tensors",
    async () => await post(RED, "image/jpeg", "/v1/models/none/predict"),
    { status: 404, code: "model_not_found" },
  ],
  [
    "an image in a query",
    async () => await edge.app.request("/v1/models/colours/predict?input=x"),
    { status: 400, code: "invalid_request" },
  ],
  [
    "an empty body",
    () => post(new Uint8Array(), "image/jpeg"),
    { status: 400, code: "invalid_image" },
  ],
  [
    "a GIF declared as a PNG",
    () => post(new TextEncoder().encode("GIF89a"), "image/png"),
    { status: 415, code: "unsupported_image", detail: expect.stringContaining("GIF") },
  ],
  [
    "half an image",
    () => post(RED.slice(0, 200), "image/jpeg"),
    { status: 400, code: "invalid_image" },
  ],
  [
    "more bytes than the model accepts",
    () => post(new Uint8Array(MAX_IMAGE_BYTES + 1), "image/jpeg"),
    { status: 413, code: "input_too_large" },
  ],
  [
    "a body over the image limit",
    () => post(new Uint8Array(MAX_IMAGE_BODY_BYTES + 1), "image/jpeg"),
    { status: 413, code: "body_too_large" },
  ],
  [
    "a JSON body over its limit",
    () => postJson({ b64: "A".repeat(5_000) }),
    { status: 413, code: "body_too_large" },
  ],
  [
    "invalid base64",
    () => postJson({ b64: "****" }),
    {
      status: 400,
      code: "invalid_request",
      detail: expect.stringContaining("inputs[0].b64"),
    },
  ],
  [
    "base64 of something else",
    () => postJson({ b64: "aGVsbG8=" }),
    { status: 400, code: "invalid_image" },
  ],
  [
    "an unknown field",
    () => postJson({ ...toBase64Input(RED), mediaType: "image/jpeg" }),
    { status: 400, code: "invalid_request" },
  ],
  [
    "more pixels than the model accepts",
    () => post(decompressionBomb(), "image/png"),
    { status: 413, code: "image_too_large", detail: expect.stringContaining("60000 x 60000") },
  ],
  [
    "damaged image data",
    () => post(corruptImage(), "image/png"),
    { status: 400, code: "invalid_image" },
  ],
];
describe("an invalid image request", () => {
  it.each(invalidRequests)("is rejected: %s", async (_name, send, problem) => {
    expect(await readProblem(await send())).toMatchObject({ ...problem, retryable: false });
    expect(edge.regionRequests).toEqual([]);
    expect(
      (
        await readPrediction(
          await post(RED, "image/jpeg", "/v1/models/colours/predict?cache=bypass"),
        )
      ).outputs[0]?.label,
    ).toBe("red");
  });

  it.each(invalidImages)("is rejected for another image kind: $name", async ({ file }) => {
    expect(await readProblem(await post(file, "image/jpeg"))).toMatchObject({
      status: 415,
      code: "unsupported_image",
    });
  });
});

/** A PNG whose header declares 3.6 gigapixels. */
function decompressionBomb(): Uint8Array<ArrayBuffer> {
  const file = BLUE.slice();
  new DataView(file.buffer).setUint32(16, 60_000);
  new DataView(file.buffer).setUint32(20, 60_000);
  return file;
}

/** A PNG with a valid header and invalid zlib data. */
function corruptImage(): Uint8Array<ArrayBuffer> {
  const file = BLUE.slice();
  const data = new TextDecoder("latin1").decode(file).indexOf("IDAT") + 4;
  file.fill(0xff, data, data + 8);
  return file;
}
