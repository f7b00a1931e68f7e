// Fuzz test: thousands of mutated /v2 requests in workerd, none of which may break the edge or affect the next request.
import { beforeAll, describe, expect, it } from "vitest";
import { encodeInferRequest, type InferRequest } from "../../src/protocol/open-inference.ts";
import identity from "../fixtures/identity-all.onnx";
import matmul from "../fixtures/int8-matmul.onnx";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { createRequestMutator, type RawRequest } from "../support/mutate-request.ts";
import {
  IDENTITY_DATATYPES,
  identityGraph,
  int8MatMulGraph,
  publishTensorModel,
} from "../support/tensor-model.ts";
import { fullDeployment } from "./full-engine.ts";

const REQUESTS = 6_000;
const CHECK_EVERY = 200;
const SEED = 20_261_122;
const INFER = "/v2/models/toy/infer";
const encode = (text: string) => new TextEncoder().encode(text);

let edge: EdgeUnderTest;
beforeAll(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
  await publishTensorModel(edge.store, "matmul", int8MatMulGraph(new Uint8Array(matmul)));
  await publishTensorModel(edge.store, "all", identityGraph(new Uint8Array(identity)));
  await publishTensorModel(edge.store, "far", int8MatMulGraph(new Uint8Array(matmul)), {
    places: ["region"],
  });
});

function createSeedRequests(): RawRequest[] {
  const get = (path: string): RawRequest => ({ method: "GET", path, headers: {}, body: undefined });
  const infer = (model: string, request: InferRequest, isBinary: boolean): RawRequest => {
    const { body, jsonBytes } = encodeInferRequest(request, isBinary);
    return {
      method: "POST",
      path: `/v2/models/${model}/infer`,
      headers:
        jsonBytes === undefined ? {} : { "inference-header-content-length": String(jsonBytes) },
      body,
    };
  };
  const both = (model: string, request: InferRequest) =>
    [false, true].map((isBinary) => infer(model, request, isBinary));
  const x = { datatype: "UINT8", shape: [2, 3], data: Uint8Array.of(1, 2, 3, 4, 5, 6) } as const;
  const input = { datatype: "BYTES", shape: [2], data: [encode("yes"), encode("maybe")] } as const;
  const emptyInputs = IDENTITY_DATATYPES.map((datatype) => ({
    name: `${datatype.toLowerCase()}_in`,
    datatype,
    shape: [0],
    ...(datatype === "FP16" ? { parameters: { binary_data_size: 0 } } : { data: [] }),
  }));
  return [
    ...both("toy", {
      id: "1",
      inputs: { input },
      parameters: { timeout: 1_000_000 },
      outputs: [{ name: "logits", parameters: { classification: 1 } }],
    }),
    ...both("toy", { inputs: { input }, parameters: { tier: "edge", binary_data_output: true } }),
    ...both("toy", {
      inputs: { ids: { datatype: "INT32", shape: [1, 2], data: Int32Array.of(58, 20) } },
    }),
    ...both("matmul", { inputs: { x }, outputs: [{ name: "y" }] }),
    ...both("far", { inputs: { x } }),
    {
      method: "POST",
      path: "/v2/models/all/infer",
      headers: {},
      body: encode(JSON.stringify({ inputs: emptyInputs })),
    },
    {
      method: "POST",
      path: "/v2/models/matmul/infer",
      headers: { "inference-header-content-length": "0" },
      body: Uint8Array.of(1, 2, 3),
    },
    ...[
      "/v2",
      "/v2/health/live",
      "/v2/health/ready",
      "/v2/models/toy",
      "/v2/models/far/ready",
      "/v2/models/toy/versions/1/ready",
      "/v2/models/matmul/stats",
      "/v2/repository/index",
    ].map(get),
  ];
}

describe("the edge", () => {
  it(
    `survives ${REQUESTS} mutated requests, and answers the next ones correctly`,
    { timeout: 120_000 },
    async () => {
      const nextRequest = createRequestMutator(SEED, createSeedRequests());
      const statuses = new Map<number, number>();
      const faults: string[] = [];
      for (let index = 0; index < REQUESTS; index++) {
        const { method, path, headers, body } = nextRequest();
        const response = await edge.app.request(path, {
          method,
          headers,
          ...(body === undefined || method === "GET" || method === "HEAD" ? {} : { body }),
        });
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
        const fault = findFault(
          path,
          response.status,
          new TextDecoder().decode(await response.arrayBuffer()),
        );
        if (fault !== undefined)
          faults.push(`request ${index}: ${method} ${path} ${JSON.stringify(headers)}: ${fault}`);
        if (index % CHECK_EVERY === 0) await expectCorrectAnswers();
      }
      expect(faults).toEqual([]);
      await expectCorrectAnswers();
      // The mutations are strong enough to be rejected, and weak enough to be accepted sometimes.
      expect(statuses.get(200)).toBeGreaterThan(REQUESTS / 20);
      expect(statuses.get(400)).toBeGreaterThan(REQUESTS / 5);
      expect([...statuses.keys()]).toEqual(expect.arrayContaining([404, 405, 413, 415, 501]));
      expect(
        edge.logRecords.filter(({ event, code }) => event === "engine_trap" || code === "internal"),
      ).toEqual([]);
    },
  );
});

/** 501 rejects extensions that only a region supports. A mutated path may leave /v2, where errors have another format. */
function findFault(path: string, status: number, body: string): string | undefined {
  const isExpected = [200, 302, 400, 404, 405, 413, 415, 501].includes(status);
  const isShort = status === 200 || body.length < 2_000;
  const isOutside = !/^\/v2(\/|$)/.test(new URL(path, "http://edge.test").pathname);
  const isError =
    status === 200 || body === "" || isOutside || typeof readErrorText(body) === "string";
  return isExpected && isShort && isError ? undefined : `${status} ${body.slice(0, 300)}`;
}

function readErrorText(body: string): unknown {
  try {
    return JSON.parse(body).error;
  } catch {
    return undefined;
  }
}

async function expectCorrectAnswers(): Promise<void> {
  const post = (path: string, body: string) => edge.app.request(path, { method: "POST", body });
  const answer = await post(
    INFER,
    '{"inputs":[{"name":"input","shape":[2],"datatype":"BYTES","data":["yes","maybe"]}]}',
  );
  expect(await answer.json()).toMatchObject({
    parameters: { tier: "edge, region" },
    outputs: [{ data: [6, 0, 0, 9] }],
  });
  const product = await post(
    "/v2/models/matmul/infer",
    '{"inputs":[{"name":"x","shape":[1,3],"datatype":"UINT8","data":[1,2,3]}]}',
  );
  expect(await product.json()).toMatchObject({
    parameters: { tier: "edge" },
    outputs: [{ data: [2, 44] }],
  });
}
