// Statuses and texts of errors, as Triton has them: its http_server.cc, infer_request.cc, model.cc, model_lifecycle.cc,
// model_repository_manager.cc and tritonserver.cc. A remedy of ours may follow the text.
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

/** JSON, and bytes after it. */
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
  what: string,
  path: string,
  init: RequestInit | undefined,
  status: number,
  text: string,
];

describe("an error's status and text are Triton's:", () => {
  it.each<Case>([
    [
      "model not known",
      "/v2/models/other/infer",
      inferRequest([x]),
      400,
      "Request for unknown model: 'other' is not found",
    ],
    [
      "name of none",
      "/v2/models/Other_Model!/infer",
      inferRequest([x]),
      400,
      "Request for unknown model: 'Other_Model!' is not found",
    ],
    [
      "metadata of a model not known",
      "/v2/models/other",
      undefined,
      400,
      "Request for unknown model: 'other' is not found",
    ],
    [
      "configuration of a model not known",
      "/v2/models/other/config",
      undefined,
      400,
      "Request for unknown model: 'other' is not found",
    ],
    [
      "statistics of a model not known",
      "/v2/models/other/stats",
      undefined,
      400,
      "Request for unknown model: 'other' is not found",
    ],
    [
      "readiness of a model not known",
      "/v2/models/other/ready",
      undefined,
      400,
      "Request for unknown model: 'other' is not found",
    ],
    [
      "version not known",
      "/v2/models/mood/versions/7/infer",
      postRequest(createTextBody(["good"])),
      404,
      "Request for unknown model: 'mood' version 7 is not found",
    ],
    [
      "metadata of a version not known",
      "/v2/models/mood/versions/7",
      undefined,
      404,
      "Request for unknown model: 'mood' version 7 is not found",
    ],
    [
      "model unloaded",
      "/v2/models/gone/infer",
      inferRequest([]),
      404,
      "Request for unknown model: 'gone' has no available versions",
    ],
    [
      "readiness of a model unloaded",
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
      "statistics of a model of which none is loaded",
      "/v2/models/echo/stats",
      undefined,
      400,
      "requested model 'echo' is not available",
    ],
    [
      "model to load not known",
      "/v2/repository/models/other/load",
      postRequest(""),
      400,
      "failed to load 'other', failed to poll from model repository",
    ],
    [
      "repository named",
      "/v2/repository/main/models/mood/load",
      postRequest(""),
      501,
      "'repository_name' specification is not supported",
    ],
    ["wrong verb", matmul, undefined, 405, "Method Not Allowed"],
    ["wrong verb of health", "/v2/health/live", { method: "POST" }, 405, "Method Not Allowed"],
    ["wrong verb of metadata", "/v2/models/mood", { method: "DELETE" }, 405, "Method Not Allowed"],
    ["wrong verb of the index", "/v2/repository/index", undefined, 405, "Method Not Allowed"],
    [
      "content coding not known",
      matmul,
      postRequest("{}", { "content-encoding": "br" }),
      415,
      "Unsupported compression type",
    ],
    ["not JSON", matmul, postRequest("hello"), 400, "failed to parse the request JSON buffer: "],
    ["nothing", matmul, postRequest(""), 400, "failed to parse the request JSON buffer: "],
    [
      "nested too deep",
      matmul,
      postRequest(`{"inputs":${"[".repeat(120)}${"]".repeat(120)}}`),
      400,
      "failed to parse the request JSON buffer: ",
    ],
    [
      "length of JSON that is none",
      matmul,
      postRequest("{}", { "inference-header-content-length": "two" }),
      400,
      "Unable to parse Inference-Header-Content-Length, got: ",
    ],
    [
      "length of JSON below 0",
      matmul,
      postRequest("{}", { "inference-header-content-length": "-2" }),
      400,
      "Unable to parse Inference-Header-Content-Length, got: ",
    ],
    [
      "length of JSON beyond the body",
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
      "dimension below 0",
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
      "datatype not known",
      matmul,
      inferRequest([{ ...x, datatype: "INT4" }]),
      400,
      "Unable to parse 'inputs.0.datatype': ",
    ],
    [
      "data in no form",
      matmul,
      inferRequest([empty]),
      400,
      "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But no field is set",
    ],
    [
      "data in two forms",
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
      "bytes missing",
      matmul,
      binary([sized(3)], [1, 2]),
      400,
      "unexpected size for input 'x', expecting 1 additional bytes for model 'matmul'",
    ],
    [
      "bytes left over",
      matmul,
      binary([sized(3)], [1, 2, 3, 4]),
      400,
      "unexpected additional input data for model 'matmul'",
    ],
    [
      "bytes that are not the shape's",
      matmul,
      binary([sized(4)], [1, 2, 3, 4]),
      400,
      "input byte size mismatch for input 'x' for model 'matmul'. Expected 3, got 4",
    ],
    [
      "string cut off",
      "/v2/models/echo/infer",
      binary([texts(6, [1])], [5, 0, 0, 0, 1, 2]),
      400,
      "incomplete string data for inference input 'x' for model 'echo', expecting string of length 5 but only 2 bytes available",
    ],
    [
      "length of a string cut off",
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
      "an input too many",
      matmul,
      inferRequest([x, { ...x, name: "z" }]),
      400,
      "expected 1 inputs but got 2 inputs for model 'matmul'. Got input(s) ['x','z'].",
    ],
    [
      "no input of the task's",
      "/v2/models/mood/infer",
      inferRequest([]),
      400,
      "expected 1 inputs but got 0 inputs for model 'mood'. Got input(s) [], but missing required input(s) ['input']",
    ],
    [
      "half the graph's inputs",
      "/v2/models/mood/infer",
      inferRequest([{ name: "input_ids", shape: [1, 1], datatype: "INT64", data: [4] }]),
      400,
      "expected 2 inputs but got 1 inputs for model 'mood'. Got input(s) ['input_ids'], but missing required input(s) ['attention_mask']",
    ],
    [
      "input not known",
      matmul,
      inferRequest([{ ...x, name: "z" }]),
      400,
      "unexpected inference input 'z' for model 'matmul'",
    ],
    ["input twice", matmul, inferRequest([x, x]), 400, "input 'x' already exists in request"],
    [
      "datatype not the model's",
      matmul,
      inferRequest([{ ...x, datatype: "INT8" }]),
      400,
      "inference input 'x' data-type is 'INT8', but model 'matmul' expects 'UINT8'",
    ],
    [
      "datatype not the task's",
      "/v2/models/mood/infer",
      inferRequest([{ name: "input", shape: [1], datatype: "FP32", data: [1] }]),
      400,
      "inference input 'input' data-type is 'FP32', but model 'mood' expects 'BYTES'",
    ],
    [
      "dimension not the model's",
      matmul,
      inferRequest([{ ...x, shape: [1, 2], data: [1, 2] }]),
      400,
      "unexpected shape for input 'x' for model 'matmul'. Expected [-1,3], got [1,2]",
    ],
    [
      "rank not the model's",
      matmul,
      inferRequest([{ ...x, shape: [3] }]),
      400,
      "unexpected shape for input 'x' for model 'matmul'. Expected [-1,3], got [3]",
    ],
    [
      "output not known",
      matmul,
      inferRequest([x], { outputs: [{ name: "z" }] }),
      400,
      "unexpected inference output 'z' for model 'matmul'",
    ],
    [
      "classes that are no number",
      matmul,
      inferOutputRequest({ parameters: { classification: "all" } }),
      400,
      "Unable to parse 'classification': ",
    ],
    [
      "classes of an output that has no order",
      "/v2/models/echo/infer",
      inferRequest([{ name: "x", shape: [1], datatype: "BYTES", data: ["a"] }], {
        outputs: [{ name: "y", parameters: { classification: 1 } }],
      }),
      400,
      "class result not available for output due to unsupported type 'BYTES'",
    ],
    [
      "priority that is none",
      matmul,
      inferWithParameters({ priority: -1 }),
      400,
      "Unable to parse 'priority': ",
    ],
    [
      "timeout that is none",
      matmul,
      inferWithParameters({ timeout: "soon" }),
      400,
      "Unable to parse 'timeout': ",
    ],
    [
      "timeout below 0",
      matmul,
      inferWithParameters({ timeout: -1 }),
      400,
      "Unable to parse 'timeout': ",
    ],
    [
      "parameter of a reserved name",
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
  ])("%s", async (_what, path, init, status, text) => {
    const response = await region.app.request(path, init);
    const start = JSON.stringify({ error: text }).slice(0, -2);
    expect([response.status, (await response.text()).slice(0, start.length)]).toEqual([
      status,
      start,
    ]);
  });

  it("and what Triton can do and a region cannot is refused with 501", async () => {
    const refusals: [string, RequestInit | undefined][] = [
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
      [
        "/v2/repository/models/mood/load",
        postRequest('{"parameters":{"file:1/model.onnx":"AAAA"}}'),
      ],
      ["/v2/trace/setting", undefined],
      ["/v2/trace/setting", postRequest('{"trace_level":["TIMESTAMPS"]}')],
      ["/v2/models/mood/trace/setting", postRequest("{}")],
      ["/v2/logging", undefined],
      ["/v2/systemsharedmemory/status", undefined],
      ["/v2/cudasharedmemory/region/r/register", postRequest("{}")],
      ["/v2/models/mood/generate", postRequest("{}")],
    ];
    for (const [path, init] of refusals) {
      const response = await region.app.request(path, init);
      expect([path, response.status, await response.json()]).toEqual([
        path,
        501,
        { error: expect.stringMatching(/not supported/) },
      ]);
    }
  });

  it("but a sequence of 0 is none, and unknown parameters are the model's own", async () => {
    expect(
      (
        await region.app.request(
          matmul,
          inferWithParameters({ sequence_id: 0, sequence_start: false, mine: "x", priority: 1 }),
        )
      ).status,
    ).toBe(200);
  });

  it("and a content coding that is not taken comes back with those that are", async () => {
    const response = await region.app.request(
      matmul,
      postRequest("{}", { "content-encoding": "br" }),
    );
    expect(response.headers.get("accept-encoding")).toBe("gzip, deflate");
  });
});
