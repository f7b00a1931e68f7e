// Triton's error statuses and texts, from its http_server.cc, infer_request.cc, model.cc, model_lifecycle.cc,
// model_repository_manager.cc and tritonserver.cc. A remedy of EdgeTier may follow the text.
//
// The texts are asserted word for word because clients of Triton match them. One table makes the file long.
import { beforeAll, describe, expect, it } from "vitest";
import {
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

let region: RegionFixture;
beforeAll(async () => {
  region = createRegionFixture();
  await publishMoodModel(region.store);
  await region.store.writeAliases("mood", { stable: 1 }, undefined);
  await publishTensorModel(
    region.store,
    "matmul",
    int8MatMulGraph(await readFixture("int8-matmul.onnx")),
    {
      places: ["region"],
    },
  );
  await publishTensorModel(
    region.store,
    "echo",
    stringIdentityGraph(await readFixture("string-identity.onnx")),
    { places: ["region"] },
  );
  await publishTensorModel(
    region.store,
    "many",
    identityGraph(await readFixture("identity-all.onnx")),
    {
      places: ["region"],
    },
  );
  await publishTensorModel(
    region.store,
    "gone",
    stringIdentityGraph(await readFixture("string-identity.onnx")),
    { places: ["region"] },
  );
  await region.repository.unload("gone");
});

const matmul = "/v2/models/matmul/infer";
const x = { name: "x", shape: [1, 3], datatype: "UINT8", data: [1, 2, 3] };
const inferRequest = (inputs: unknown, more: object = {}) =>
  postRequest(JSON.stringify({ inputs, ...more }));
const inferOutputRequest = (output: object) =>
  inferRequest([x], { outputs: [{ name: "y", ...output }] });
const inferWithParameters = (values: object) => inferRequest([x], { parameters: values });
const { data: _none, ...empty } = x;

/** Request body with JSON inputs and binary data after them. */
function binary(inputs: object[], bytes: readonly number[]): RequestInit {
  const json = new TextEncoder().encode(JSON.stringify({ inputs }));
  return postRequest(Uint8Array.from([...json, ...bytes]), {
    "inference-header-content-length": String(json.byteLength),
  });
}
const sized = (size: unknown, fields: object = {}) => ({
  ...empty,
  ...fields,
  parameters: { binary_data_size: size },
});
const texts = (size: number, shape: number[]) => ({
  name: "x",
  datatype: "BYTES",
  shape,
  parameters: { binary_data_size: size },
});

type Case = [
  title: string,
  path: string,
  init: RequestInit | undefined,
  status: number,
  text: string,
];

const tritonErrors: Case[] = [
  [
    "unknown model",
    "/v2/models/other/infer",
    inferRequest([x]),
    400,
    "Request for unknown model: 'other' is not found",
  ],
  [
    "invalid model name",
    "/v2/models/Other_Model!/infer",
    inferRequest([x]),
    400,
    "Request for unknown model: 'Other_Model!' is not found",
  ],
  [
    "metadata of an unknown model",
    "/v2/models/other",
    undefined,
    400,
    "Request for unknown model: 'other' is not found",
  ],
  [
    "configuration of an unknown model",
    "/v2/models/other/config",
    undefined,
    400,
    "Request for unknown model: 'other' is not found",
  ],
  [
    "statistics of an unknown model",
    "/v2/models/other/stats",
    undefined,
    400,
    "Request for unknown model: 'other' is not found",
  ],
  [
    "readiness of an unknown model",
    "/v2/models/other/ready",
    undefined,
    400,
    "Request for unknown model: 'other' is not found",
  ],
  [
    "unknown version",
    "/v2/models/mood/versions/7/infer",
    postRequest(createTextBody(["good"])),
    404,
    "Request for unknown model: 'mood' version 7 is not found",
  ],
  [
    "metadata of an unknown version",
    "/v2/models/mood/versions/7",
    undefined,
    404,
    "Request for unknown model: 'mood' version 7 is not found",
  ],
  [
    "unloaded model",
    "/v2/models/gone/infer",
    inferRequest([]),
    404,
    "Request for unknown model: 'gone' has no available versions",
  ],
  [
    "readiness of an unloaded model",
    "/v2/models/gone/ready",
    undefined,
    400,
    "Model version not ready",
  ],
  [
    "statistics of a version that is not loaded",
    "/v2/models/echo/versions/1/stats",
    undefined,
    400,
    "requested model version is not available for model 'echo'",
  ],
  [
    "statistics of a model without loaded versions",
    "/v2/models/echo/stats",
    undefined,
    400,
    "requested model 'echo' is not available",
  ],
  [
    "load of an unknown model",
    "/v2/repository/models/other/load",
    postRequest(""),
    400,
    "failed to load 'other', failed to poll from model repository",
  ],
  [
    "named repository",
    "/v2/repository/main/models/mood/load",
    postRequest(""),
    501,
    "'repository_name' specification is not supported",
  ],
  ["wrong method", matmul, undefined, 405, "Method Not Allowed"],
  ["wrong method for health", "/v2/health/live", { method: "POST" }, 405, "Method Not Allowed"],
  ["wrong method for metadata", "/v2/models/mood", { method: "DELETE" }, 405, "Method Not Allowed"],
  ["wrong method for the index", "/v2/repository/index", undefined, 405, "Method Not Allowed"],
  [
    "unknown content coding",
    matmul,
    postRequest("{}", { "content-encoding": "br" }),
    415,
    "Unsupported compression type",
  ],
  ["not JSON", matmul, postRequest("hello"), 400, "failed to parse the request JSON buffer: "],
  ["empty body", matmul, postRequest(""), 400, "failed to parse the request JSON buffer: "],
  [
    "nested too deep",
    matmul,
    postRequest(`{"inputs":${"[".repeat(120)}${"]".repeat(120)}}`),
    400,
    "failed to parse the request JSON buffer: ",
  ],
  [
    "JSON length that is not a number",
    matmul,
    postRequest("{}", { "inference-header-content-length": "two" }),
    400,
    "Unable to parse Inference-Header-Content-Length, got: ",
  ],
  [
    "negative JSON length",
    matmul,
    postRequest("{}", { "inference-header-content-length": "-2" }),
    400,
    "Unable to parse Inference-Header-Content-Length, got: ",
  ],
  [
    "JSON length above the body length",
    matmul,
    postRequest("{}", { "inference-header-content-length": "3" }),
    400,
    "inference header size should be in range (0, 2), got: 3",
  ],
  ["no list of inputs", matmul, postRequest("{}"), 400, "Unable to parse 'inputs': "],
  [
    "input without a name",
    matmul,
    inferRequest([{ ...x, name: undefined }]),
    400,
    "Unable to parse 'inputs.0.name': ",
  ],
  [
    "input without a shape",
    matmul,
    inferRequest([{ ...x, shape: "3" }]),
    400,
    "Unable to parse 'inputs.0.shape': ",
  ],
  [
    "negative dimension",
    matmul,
    inferRequest([{ ...x, shape: [-1, 3] }]),
    400,
    "Unable to parse 'inputs.0.shape.0': ",
  ],
  [
    "shape that overflows",
    matmul,
    postRequest(
      '{"inputs":[{"name":"x","datatype":"UINT8","shape":[16,1152921504606846978],"data":[]}]}',
    ),
    400,
    "Unable to parse 'inputs.0.shape.1': ",
  ],
  [
    "unknown datatype",
    matmul,
    inferRequest([{ ...x, datatype: "INT4" }]),
    400,
    "Unable to parse 'inputs.0.datatype': ",
  ],
  [
    "input without data",
    matmul,
    inferRequest([empty]),
    400,
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But no field is set",
  ],
  [
    "input with data in two forms",
    matmul,
    inferRequest([{ ...x, parameters: { binary_data_size: 3 } }]),
    400,
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But set 'data' 'binary_data_size'",
  ],
  [
    "FP16 as JSON",
    matmul,
    inferRequest([{ ...x, datatype: "FP16" }]),
    400,
    "receiving FP16 data via JSON is not supported. Please use the binary data format for input 'x'",
  ],
  [
    "fewer elements than the shape",
    matmul,
    inferRequest([{ ...x, data: [1, 2] }]),
    400,
    "Unable to parse 'data': Shape does not match true shape of 'data' field",
  ],
  [
    "missing bytes",
    matmul,
    binary([sized(3)], [1, 2]),
    400,
    "unexpected size for input 'x', expecting 1 additional bytes for model 'matmul'",
  ],
  [
    "excess bytes",
    matmul,
    binary([sized(3)], [1, 2, 3, 4]),
    400,
    "unexpected additional input data for model 'matmul'",
  ],
  [
    "byte count that does not match the shape",
    matmul,
    binary([sized(4)], [1, 2, 3, 4]),
    400,
    "input byte size mismatch for input 'x' for model 'matmul'. Expected 3, got 4",
  ],
  [
    "truncated string",
    "/v2/models/echo/infer",
    binary([texts(6, [1])], [5, 0, 0, 0, 1, 2]),
    400,
    "incomplete string data for inference input 'x' for model 'echo', expecting string of length 5 but only 2 bytes available",
  ],
  [
    "truncated string length",
    "/v2/models/echo/infer",
    binary([texts(2, [1])], [5, 0]),
    400,
    "incomplete string length indicator for inference input 'x' for model 'echo', expecting 4 bytes but only 2 bytes available",
  ],
  [
    "fewer strings than the shape",
    "/v2/models/echo/infer",
    binary([texts(4, [3])], [0, 0, 0, 0]),
    400,
    "expected 3 string elements for inference input 'x' for model 'echo', got 1",
  ],
  [
    "no inputs",
    matmul,
    inferRequest([]),
    400,
    "expected 1 inputs but got 0 inputs for model 'matmul'. Got input(s) [], but missing required input(s) ['x']. Please provide all required input(s).",
  ],
  [
    "excess input",
    matmul,
    inferRequest([x, { ...x, name: "z" }]),
    400,
    "expected 1 inputs but got 2 inputs for model 'matmul'. Got input(s) ['x','z'].",
  ],
  [
    "missing task input",
    "/v2/models/mood/infer",
    inferRequest([]),
    400,
    "expected 1 inputs but got 0 inputs for model 'mood'. Got input(s) [], but missing required input(s) ['input']",
  ],
  [
    "missing graph input",
    "/v2/models/mood/infer",
    inferRequest([{ name: "input_ids", shape: [1, 1], datatype: "INT64", data: [4] }]),
    400,
    "expected 2 inputs but got 1 inputs for model 'mood'. Got input(s) ['input_ids'], but missing required input(s) ['attention_mask']",
  ],
  [
    "unknown input",
    matmul,
    inferRequest([{ ...x, name: "z" }]),
    400,
    "unexpected inference input 'z' for model 'matmul'",
  ],
  ["duplicate input", matmul, inferRequest([x, x]), 400, "input 'x' already exists in request"],
  [
    "datatype that differs from the model",
    matmul,
    inferRequest([{ ...x, datatype: "INT8" }]),
    400,
    "inference input 'x' data-type is 'INT8', but model 'matmul' expects 'UINT8'",
  ],
  [
    "datatype that differs from the task",
    "/v2/models/mood/infer",
    inferRequest([{ name: "input", shape: [1], datatype: "FP32", data: [1] }]),
    400,
    "inference input 'input' data-type is 'FP32', but model 'mood' expects 'BYTES'",
  ],
  [
    "dimension that differs from the model",
    matmul,
    inferRequest([{ ...x, shape: [1, 2], data: [1, 2] }]),
    400,
    "unexpected shape for input 'x' for model 'matmul'. Expected [-1,3], got [1,2]",
  ],
  [
    "rank that differs from the model",
    matmul,
    inferRequest([{ ...x, shape: [3] }]),
    400,
    "unexpected shape for input 'x' for model 'matmul'. Expected [-1,3], got [3]",
  ],
  [
    "unknown output",
    matmul,
    inferRequest([x], { outputs: [{ name: "z" }] }),
    400,
    "unexpected inference output 'z' for model 'matmul'",
  ],
  [
    "classification count that is not a number",
    matmul,
    inferOutputRequest({ parameters: { classification: "all" } }),
    400,
    "Unable to parse 'classification': ",
  ],
  [
    "classification of an output without an order",
    "/v2/models/echo/infer",
    inferRequest([{ name: "x", shape: [1], datatype: "BYTES", data: ["a"] }], {
      outputs: [{ name: "y", parameters: { classification: 1 } }],
    }),
    400,
    "class result not available for output due to unsupported type 'BYTES'",
  ],
  [
    "invalid priority",
    matmul,
    inferWithParameters({ priority: -1 }),
    400,
    "Unable to parse 'priority': ",
  ],
  [
    "timeout that is not a number",
    matmul,
    inferWithParameters({ timeout: "soon" }),
    400,
    "Unable to parse 'timeout': ",
  ],
  [
    "negative timeout",
    matmul,
    inferWithParameters({ timeout: -1 }),
    400,
    "Unable to parse 'timeout': ",
  ],
  [
    "parameter with a reserved name",
    matmul,
    inferWithParameters({ triton_x: 1 }),
    400,
    "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified",
  ],
  [
    "raw request for several inputs",
    "/v2/models/many/infer",
    postRequest("abc", { "inference-header-content-length": "0" }),
    400,
    "Raw request must only have 1 input to be deduced but got 12 inputs in 'many' model configuration",
  ],
  [
    "raw request of the wrong size",
    matmul,
    postRequest("abcd", { "inference-header-content-length": "0" }),
    400,
    "input byte size mismatch for input 'x' for model 'matmul'. Expected 3, got 4",
  ],
];

const unsupportedRequests: [path: string, init: RequestInit | undefined][] = [
  [matmul, inferWithParameters({ sequence_id: 7 })],
  [matmul, inferWithParameters({ sequence_id: "a" })],
  [matmul, inferWithParameters({ sequence_start: true })],
  [
    matmul,
    inferRequest([
      { ...empty, parameters: { shared_memory_region: "r", shared_memory_byte_size: 3 } },
    ]),
  ],
  [matmul, inferOutputRequest({ parameters: { shared_memory_region: "r" } })],
  ["/v2/repository/models/mood/load", postRequest('{"parameters":{"config":"{}"}}')],
  ["/v2/repository/models/mood/load", postRequest('{"parameters":{"file:1/model.onnx":"AAAA"}}')],
  ["/v2/trace/setting", undefined],
  ["/v2/trace/setting", postRequest('{"trace_level":["TIMESTAMPS"]}')],
  ["/v2/models/mood/trace/setting", postRequest("{}")],
  ["/v2/logging", undefined],
  ["/v2/systemsharedmemory/status", undefined],
  ["/v2/cudasharedmemory/region/r/register", postRequest("{}")],
  ["/v2/models/mood/generate", postRequest("{}")],
];

describe("a region, like Triton,", () => {
  it.each(tritonErrors)(
    "answers with Triton's status and text: %s",
    async (_title, path, init, status, text) => {
      const response = await region.app.request(path, init);
      const start = JSON.stringify({ error: text }).slice(0, -2);
      expect({
        status: response.status,
        start: (await response.text()).slice(0, start.length),
      }).toEqual({ status, start });
    },
  );

  it("rejects unsupported features of Triton with 501", async () => {
    for (const [path, init] of unsupportedRequests) {
      const response = await region.app.request(path, init);
      expect({ path, status: response.status, body: await response.json() }).toEqual({
        path,
        status: 501,
        body: { error: expect.stringMatching(/not supported/) },
      });
    }
  });

  it("accepts sequence id 0, and passes unknown parameters to the model", async () => {
    expect(
      (
        await region.app.request(
          matmul,
          inferWithParameters({ sequence_id: 0, sequence_start: false, mine: "x", priority: 1 }),
        )
      ).status,
    ).toBe(200);
  });

  it("lists the supported content codings if it rejects one", async () => {
    const response = await region.app.request(
      matmul,
      postRequest("{}", { "content-encoding": "br" }),
    );
    expect(response.headers.get("accept-encoding")).toBe("gzip, deflate");
  });
});
