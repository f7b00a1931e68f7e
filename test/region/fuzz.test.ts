// Fuzz test: 20,000 mutated requests over all routes and methods must neither break the region nor affect the next request.
import { beforeAll, describe, expect, it } from "vitest";
import { encodeInferRequest } from "../../src/protocol/open-inference.ts";
import { createRequestMutator, type RawRequest } from "../support/mutate-request.ts";
import {
  IDENTITY_DATATYPES,
  identityGraph,
  int8MatMulGraph,
  publishTensorModel,
  stringIdentityGraph,
} from "../support/tensor-model.ts";
import {
  createRegionFixture,
  readFixture,
  postRequest,
  publishMoodModel,
  createTextBody,
  type RegionFixture,
} from "./region-fixture.ts";

const REQUESTS = 20_000;
const CHECK_EVERY = 200;
const SEED = 20_261_121;

let region: RegionFixture;
let corpus: readonly RawRequest[];

beforeAll(async () => {
  region = createRegionFixture({ maxBodyBytes: 16_384, maxRows: 8 });
  await publishMoodModel(region.store);
  await publishMoodModel(region.store, { version: 2 });
  await region.store.writeAliases("mood", { stable: 1 }, undefined);
  const regionPlace = { places: ["region"] } as const;
  await publishTensorModel(
    region.store,
    "matmul",
    int8MatMulGraph(await readFixture("int8-matmul.onnx")),
    regionPlace,
  );
  await publishTensorModel(
    region.store,
    "all",
    identityGraph(await readFixture("identity-all.onnx")),
    regionPlace,
  );
  await publishTensorModel(
    region.store,
    "echo",
    stringIdentityGraph(await readFixture("string-identity.onnx")),
    regionPlace,
  );
  await publishTensorModel(
    region.store,
    "victim",
    stringIdentityGraph(await readFixture("string-identity.onnx")),
    regionPlace,
  );
  corpus = [...createInferRequests(), ...createOtherRequests()];
});

const encode = (text: string) => new TextEncoder().encode(text);
const jsonRequest = (path: string, body: string): RawRequest => ({
  method: "POST",
  path,
  headers: { "content-type": "application/json" },
  body: encode(body),
});
const getRequest = (path: string): RawRequest => ({
  method: "GET",
  path,
  headers: {},
  body: undefined,
});
const inferRequest = (
  model: string,
  request: Parameters<typeof encodeInferRequest>[0],
  isBinary: boolean,
): RawRequest => {
  const { body, jsonBytes } = encodeInferRequest(request, isBinary);
  return {
    method: "POST",
    path: `/v2/models/${model}/infer`,
    headers:
      jsonBytes === undefined ? {} : { "inference-header-content-length": String(jsonBytes) },
    body,
  };
};

function createInferRequests(): RawRequest[] {
  const x = { datatype: "UINT8", shape: [2, 3], data: Uint8Array.of(1, 2, 3, 4, 5, 6) } as const;
  const texts = { datatype: "BYTES", shape: [2], data: [encode("good"), encode("bad")] } as const;
  const all = IDENTITY_DATATYPES.map((datatype) => ({
    name: `${datatype.toLowerCase()}_in`,
    datatype,
    shape: [2],
    parameters: { binary_data_size: 0 },
  }));
  return [
    jsonRequest(
      "/v2/models/mood/infer",
      createTextBody(["good", "bad"], {
        id: "1",
        parameters: { timeout: 1_000_000, priority: 1 },
        outputs: [{ name: "logits", parameters: { classification: 1 } }],
      }),
    ),
    jsonRequest(
      "/v2/models/mood/versions/2/infer",
      createTextBody(["good"], { parameters: { tier: "heavy", binary_data_output: true } }),
    ),
    jsonRequest("/v2/models/all/infer", JSON.stringify({ inputs: all })),
    inferRequest("mood", { inputs: { input: texts } }, true),
    ...[false, true].map((isBinary) =>
      inferRequest(
        "matmul",
        { id: "7", inputs: { x }, outputs: [{ name: "y", parameters: { binary_data: isBinary } }] },
        isBinary,
      ),
    ),
    ...[false, true].map((isBinary) =>
      inferRequest(
        "echo",
        { inputs: { x: texts }, parameters: { binary_data_output: isBinary } },
        isBinary,
      ),
    ),
    {
      method: "POST",
      path: "/v2/models/matmul/infer",
      headers: { "inference-header-content-length": "0" },
      body: Uint8Array.of(1, 2, 3),
    },
  ];
}

function createOtherRequests(): RawRequest[] {
  return [
    ...[
      "/v2",
      "/v2/health/live",
      "/v2/health/ready",
      "/v2/models/stats",
      "/v2/models/mood",
      "/v2/models/mood/ready",
      "/v2/models/mood/versions/2/config",
      "/v2/models/matmul/stats",
      "/v2/trace/setting",
      "/metrics",
    ].map(getRequest),
    jsonRequest("/v2/repository/index", '{"ready":true}'),
    jsonRequest("/v2/repository/models/victim/load", '{"parameters":{}}'),
    jsonRequest(
      "/v2/repository/models/victim/unload",
      '{"parameters":{"unload_dependents":false}}',
    ),
  ];
}

const isUnload = ({ path }: RawRequest) => path.includes("unload") && !path.includes("victim");

describe("a region", () => {
  it(
    `survives ${REQUESTS} mutated requests, and answers the next ones correctly`,
    { timeout: 60_000 },
    async () => {
      const nextRequest = createRequestMutator(SEED, corpus);
      const statuses = new Map<number, number>();
      const faults: string[] = [];
      for (let index = 0; index < REQUESTS; index++) {
        const request = nextRequest();
        if (isUnload(request)) continue;
        const { method, path, headers, body } = request;
        const response = await region.app.request(path, {
          method,
          headers,
          ...(body === undefined || method === "GET" || method === "HEAD" ? {} : { body }),
        });
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
        const fault = findFault(response.status, await response.text());
        if (fault !== undefined)
          faults.push(`request ${index}: ${method} ${path} ${JSON.stringify(headers)}: ${fault}`);
        if (index % CHECK_EVERY === 0) await expectCorrectResponses();
      }
      expect(faults).toEqual([]);
      await expectCorrectResponses();
      // A mix of accepted and rejected requests shows that the mutations are neither too strong nor too weak.
      expect(statuses.get(200)).toBeGreaterThan(REQUESTS / 20);
      expect(statuses.get(400)).toBeGreaterThan(REQUESTS / 4);
      expect([...statuses.keys()]).toEqual(expect.arrayContaining([404, 405, 413, 415, 501]));
    },
  );
});

/** 501 rejects features of Triton that a region lacks; 503 is expected for timeouts of a few microseconds. */
function findFault(status: number, body: string): string | undefined {
  const isExpected =
    [200, 400, 404, 405, 413, 415, 501].includes(status) ||
    (status === 503 && region.errorCodes.at(-1) === "request_expired");
  const isShort = status === 200 || body.length < 2_000;
  const isError = status === 200 || body === "" || typeof readError(body) === "string";
  return isExpected && isShort && isError ? undefined : `${status} ${body.slice(0, 300)}`;
}

function readError(body: string): unknown {
  try {
    return JSON.parse(body).error;
  } catch {
    return undefined;
  }
}

async function expectCorrectResponses(): Promise<void> {
  const moods = await region.app.request(
    "/v2/models/mood/infer",
    postRequest(createTextBody(["good", "bad"])),
  );
  expect(await moods.json()).toMatchObject({ outputs: [{ data: [1, 0, 0, 1] }] });
  const product = await region.app.request(
    "/v2/models/matmul/infer",
    postRequest('{"inputs":[{"name":"x","shape":[1,3],"datatype":"UINT8","data":[1,2,3]}]}'),
  );
  expect(await product.json()).toMatchObject({ outputs: [{ data: [2, 44] }] });
}
