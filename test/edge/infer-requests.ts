// Infer requests: helpers for Open Inference Protocol requests to the edge under test, and their models.
import { expect } from "vitest";
import {
  type InferResponse,
  decodeInferResponse,
  JSON_LENGTH_HEADER,
} from "../../src/protocol/open-inference.ts";
import identity from "../fixtures/identity-all.onnx";
import matmul from "../fixtures/int8-matmul.onnx";
import strings from "../fixtures/string-identity.onnx";
import zeros from "../fixtures/zeros.onnx";
import type { EdgeUnderTest } from "../support/edge-app.ts";
import {
  identityGraph,
  int8MatMulGraph,
  stringIdentityGraph,
  type TensorGraph,
} from "../support/tensor-model.ts";

export const graphs = {
  identity: identityGraph(new Uint8Array(identity)),
  matmul: int8MatMulGraph(new Uint8Array(matmul)),
  strings: stringIdentityGraph(new Uint8Array(strings)),
  zeros: {
    bytes: new Uint8Array(zeros),
    inputs: [{ name: "n", datatype: "INT64", shape: [1] }],
    outputs: [{ name: "y", datatype: "FP32", shape: [-1] }],
  },
} as const satisfies Record<string, TensorGraph>;

/** Response of the region to forwarded requests. */
export const regionResponse: InferResponse = {
  model: "from the region",
  outputs: {},
  id: undefined,
  parameters: {},
  version: undefined,
};

export const textsInput = (...data: string[]) => ({
  name: "input",
  datatype: "BYTES",
  shape: [data.length],
  data,
});
export const uint8Input = (...data: number[]) => ({
  name: "x",
  datatype: "UINT8",
  shape: [data.length / 3, 3],
  data,
});

export type InferBody = object | string | Uint8Array<ArrayBuffer>;

export async function post(
  { app }: EdgeUnderTest,
  path: string,
  body: InferBody,
  headers: Record<string, string> = {},
): Promise<Response> {
  return await app.request(path, {
    method: "POST",
    body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
    headers,
  });
}

export async function readInferResponse(response: Response): Promise<InferResponse> {
  const body = new Uint8Array(await response.arrayBuffer());
  expect(response.status, new TextDecoder().decode(body.subarray(0, 500))).toBe(200);
  const length = response.headers.get(JSON_LENGTH_HEADER);
  expect(response.headers.get("content-type")).toBe(
    length === null ? "application/json" : "application/octet-stream",
  );
  return decodeInferResponse(body, length === null ? undefined : Number(length));
}

export async function readInferError(
  response: Response,
): Promise<{ readonly status: number; readonly error: string }> {
  const body: unknown = await response.json();
  expect(body).toEqual({ error: expect.stringMatching(/\S/) });
  return { status: response.status, error: (body as { error: string }).error };
}

/** Decodes the elements of a BYTES output. */
export function decodeTexts({ outputs }: InferResponse, output: string): string[] {
  const tensor = outputs[output];
  return tensor?.datatype === "BYTES"
    ? tensor.data.map((bytes) => new TextDecoder().decode(bytes))
    : [];
}
