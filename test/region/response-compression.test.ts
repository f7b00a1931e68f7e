// Response compression: content codings by `accept-encoding`, with unchanged tensors.
import { gunzipSync, inflateSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { decodeInferResponse, encodeInferRequest } from "../../src/protocol/open-inference.ts";
import { publishTensorModel, stringIdentityGraph } from "../support/tensor-model.ts";
import {
  createRegionFixture,
  readFixture,
  postRequest,
  type RegionFixture,
} from "./region-fixture.ts";

const decoders: Readonly<Record<string, (bytes: Uint8Array) => Uint8Array>> = {
  gzip: gunzipSync,
  deflate: inflateSync,
  identity: (bytes) => bytes,
};
const texts = Array.from({ length: 80 }, (_, index) => `some text, number ${index}`);
const data = texts.map((text) => new TextEncoder().encode(text));

let region: RegionFixture;
beforeAll(async () => {
  region = createRegionFixture();
  await publishTensorModel(
    region.store,
    "echo",
    stringIdentityGraph(await readFixture("string-identity.onnx")),
    { places: ["region"] },
  );
});

async function inferEcho(
  acceptEncoding: string | undefined,
  rows = texts.length,
  isBinary = false,
) {
  const parameters = isBinary ? { binary_data_output: true } : {};
  const { body } = encodeInferRequest({
    inputs: { x: { datatype: "BYTES", shape: [rows], data: data.slice(0, rows) } },
    parameters,
  });
  const response = await region.app.request(
    "/v2/models/echo/infer",
    postRequest(body, acceptEncoding === undefined ? {} : { "accept-encoding": acceptEncoding }),
  );
  const encoding = response.headers.get("content-encoding") ?? "identity";
  const bytes = new Uint8Array(await response.arrayBuffer());
  const decoded = decoders[encoding]?.(bytes) ?? new Uint8Array();
  const jsonBytes = response.headers.get("inference-header-content-length");
  const { outputs } = decodeInferResponse(
    decoded,
    jsonBytes === null ? undefined : Number(jsonBytes),
  );
  return {
    encoding,
    bytes: bytes.byteLength,
    decodedBytes: decoded.byteLength,
    vary: response.headers.get("vary"),
    rows: outputs["y"]?.data,
  };
}

describe("a response", () => {
  it.each([
    [undefined, "identity"],
    ["gzip", "gzip"],
    ["deflate", "deflate"],
    ["GZIP", "gzip"],
    ["gzip, deflate, br", "gzip"],
    ["deflate, gzip", "deflate"],
    ["br, zstd", "identity"],
    ["gzip;q=0.5, deflate;q=0.8", "deflate"],
    ["gzip;q=0, deflate;q=0.1", "deflate"],
    ["gzip;q=0", "identity"],
    ["identity, gzip;q=0.9", "identity"],
    ["identity;q=0.5, gzip;q=0.9", "gzip"],
    ["*", "gzip"],
    ["*;q=0.5, gzip;q=0", "deflate"],
    ["*;q=0", "identity"],
    [";;;, q=1", "identity"],
  ])("to a client that accepts %s is encoded as %s", async (acceptEncoding, encoding) => {
    const response = await inferEcho(acceptEncoding);
    expect(response).toMatchObject({ encoding, vary: "accept-encoding" });
    expect(response.rows).toEqual(data);
  });

  it("is at least three times smaller with gzip", async () => {
    const { bytes, decodedBytes } = await inferEcho("gzip");
    expect(bytes * 3).toBeLessThan(decodedBytes);
  });

  it("with binary tensors reports the length of its uncompressed JSON", async () => {
    const [plain, gzip, deflate] = await Promise.all([
      inferEcho(undefined, 80, true),
      inferEcho("gzip", 80, true),
      inferEcho("deflate", 80, true),
    ]);
    expect([plain, gzip, deflate].map(({ encoding }) => encoding)).toEqual([
      "identity",
      "gzip",
      "deflate",
    ]);
    for (const { rows, decodedBytes } of [plain, gzip, deflate])
      expect({ rows, decodedBytes }).toEqual({ rows: data, decodedBytes: plain.decodedBytes });
  });

  it("that is short is not compressed, but has `vary`", async () => {
    expect(await inferEcho("gzip", 1)).toMatchObject({
      encoding: "identity",
      vary: "accept-encoding",
      rows: data.slice(0, 1),
    });
  });

  it("with an error is not compressed", async () => {
    const response = await region.app.request(
      "/v2/models/other/infer",
      postRequest("{}", { "accept-encoding": "gzip" }),
    );
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({ error: expect.stringContaining("'other'") });
  });
});
