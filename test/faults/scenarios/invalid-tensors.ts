import { expectRejections, mergeResults, type RejectionCase } from "../lib/expect-rejections.ts";
// Tensors whose shape, datatype, names or bytes are wrong, and JSON that is too deep, at the edge and at the region.
import { sendRequest, tryParseJson, formatReply } from "../lib/http-client.ts";
import { createProblemCollector, type ScenarioResult, type Scenario } from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";

const MATMUL = "/v2/models/matmul/infer";
const IDENTITY = "/v2/models/identity/infer";
const JSON_LENGTH = "inference-header-content-length";

interface RawInput {
  readonly name?: string;
  /** As it is in the JSON, so that numbers may be larger than JavaScript's. */
  readonly shape?: string;
  readonly datatype?: string;
  readonly data?: string;
  readonly parameters?: string;
}

const input = ({
  name = "x",
  shape = "[1,3]",
  datatype = "UINT8",
  data = "[1,2,3]",
  parameters,
}: RawInput = {}) =>
  `{"name":"${name}","shape":${shape},"datatype":"${datatype}",${parameters === undefined ? `"data":${data}` : `"parameters":${parameters}`}}`;
const request = (inputs: readonly string[], rest = "") => `{"inputs":[${inputs.join(",")}]${rest}}`;
const invalidInput = (what: string, one: RawInput): RejectionCase => ({
  description: what,
  path: MATMUL,
  body: request([input(one)]),
});

/** The JSON, and behind it bytes. */
function binary(
  what: string,
  json: string,
  bytes: Uint8Array,
  jsonBytes = String(Buffer.byteLength(json)),
  path = MATMUL,
): RejectionCase {
  return {
    description: what,
    path,
    headers: { [JSON_LENGTH]: jsonBytes, "content-type": "application/octet-stream" },
    body: Buffer.concat([Buffer.from(json), bytes]),
  };
}
const sizedRequest = (bytes: string, more: RawInput = {}) =>
  request([input({ ...more, parameters: `{"binary_data_size":${bytes}}` })]);

const shapes: readonly RejectionCase[] = [
  invalidInput("a shape of 16 x (2^60 + 2)", { shape: "[16,1152921504606846978]" }),
  ...[
    ["2^53 - 1", "9007199254740991"],
    ["2^53", "9007199254740992"],
    ["2^53 + 1", "9007199254740993"],
    ["2^63", "9223372036854775808"],
    ["2^64", "18446744073709551616"],
  ].flatMap(([name, size]) => [
    invalidInput(`a dimension of ${name}`, { shape: `[${size},3]` }),
    invalidInput(`16 x ${name}`, { shape: `[16,${size}]` }),
  ]),
  invalidInput("2^32 x 2^32, whose product wraps to 0", {
    shape: "[4294967296,4294967296]",
    data: "[]",
  }),
  invalidInput("a negative dimension", { shape: "[-1,3]" }),
  invalidInput("two negative ones, whose product is right", { shape: "[-1,-3]" }),
  invalidInput("half a dimension", { shape: "[1.5,2]" }),
  invalidInput("1e400", { shape: "[1e400,3]" }),
  invalidInput("a dimension of text", { shape: '["1",3]' }),
  invalidInput("no shape", { shape: "null" }),
  invalidInput("rank 0", { shape: "[]" }),
  invalidInput("rank 1", { shape: "[3]" }),
  invalidInput("rank 3", { shape: "[1,1,3]" }),
  invalidInput("a rank of 10,000", { shape: `[${"1,".repeat(9_999)}3]` }),
  invalidInput("another width", { shape: "[1,4]", data: "[1,2,3,4]" }),
  invalidInput("too few elements", { data: "[1,2]" }),
  invalidInput("too many elements", { data: "[1,2,3,4]" }),
  invalidInput("nested data of another shape", { data: "[[1],[2],[3]]" }),
  invalidInput("another datatype", { datatype: "INT32" }),
  invalidInput("a datatype that there is not", { datatype: "UINT7" }),
  invalidInput("a datatype in small letters", { datatype: "uint8" }),
  invalidInput("elements out of range", { data: "[256,0,-1]" }),
  invalidInput("elements of another kind", { data: '["1",{},null]' }),
  invalidInput("another name", { name: "y" }),
  invalidInput("the name __proto__", { name: "__proto__" }),
  { description: "no inputs", path: MATMUL, body: request([]) },
  { description: "an input twice", path: MATMUL, body: request([input(), input()]) },
  {
    description: "an input too many",
    path: MATMUL,
    body: request([input(), input({ name: "z" })]),
  },
  {
    description: "inputs missing",
    path: IDENTITY,
    body: request([input({ name: "uint8_in", shape: "[3]" })]),
  },
  {
    description: "an output that there is not",
    path: MATMUL,
    body: request([input()], ',"outputs":[{"name":"z"}]'),
  },
  {
    description: "an output twice",
    path: MATMUL,
    body: request([input()], ',"outputs":[{"name":"y"},{"name":"y"}]'),
  },
];

const nestedJson = (depth: number, open = "[", close = "]") =>
  open.repeat(depth) + close.repeat(depth);
const json: readonly RejectionCase[] = [
  ...[120, 250_000].flatMap((depth) => [
    { description: `arrays ${depth} deep`, path: MATMUL, body: nestedJson(depth) },
    { description: `arrays ${depth} deep that do not end`, path: MATMUL, body: "[".repeat(depth) },
    {
      description: `objects ${depth} deep`,
      path: MATMUL,
      body: `${nestedJson(depth, '{"a":', "}").replace(":}", ":1}")}`,
    },
    invalidInput(`data ${depth} deep`, { data: nestedJson(depth) }),
  ]),
  ...["-1", "-0", "1e3", "0x10", "NaN", "", "99999999999999999999", "4294967296", "1.5"].map(
    (length) =>
      binary(`a JSON length of "${length}"`, sizedRequest("3"), Uint8Array.of(1, 2, 3), length),
  ),
  binary("a JSON length past the end", sizedRequest("3"), Uint8Array.of(1, 2, 3), "100000"),
  binary(
    "a JSON length in the middle of the JSON",
    sizedRequest("3"),
    Uint8Array.of(1, 2, 3),
    "20",
  ),
  binary("a byte too many", sizedRequest("3"), Uint8Array.of(1, 2, 3, 4)),
  binary("a byte too few", sizedRequest("3"), Uint8Array.of(1, 2)),
  binary("no bytes", sizedRequest("3"), new Uint8Array()),
  ...["-1", "2", "4", "1e999", "9007199254740993", '"3"', "null", "3.5"].map((size) =>
    binary(`a size of ${size}`, sizedRequest(size), Uint8Array.of(1, 2, 3)),
  ),
  binary(
    "a size of 3 GB for a shape that has it",
    sizedRequest("3221225472", { shape: "[1073741824,3]" }),
    Uint8Array.of(1, 2, 3),
  ),
];

const bytesOf = (...lengths: readonly number[]) =>
  Buffer.concat(
    lengths.map((length) =>
      Buffer.concat([Buffer.from(Uint32Array.of(length).buffer), Buffer.from("ab")]),
    ),
  );
const stringTensorCase = (what: string, bytes: Uint8Array, shape: string) =>
  binary(
    what,
    sizedRequest(String(bytes.byteLength), { datatype: "BYTES", shape }),
    bytes,
    undefined,
    "/v2/models/words/infer",
  );
const strings: readonly RejectionCase[] = [
  stringTensorCase("a text past the end", bytesOf(7), "[1]"),
  stringTensorCase("a text of 4 GB", bytesOf(0xffff_ffff), "[1]"),
  stringTensorCase("a length that is cut off", Uint8Array.of(1, 0), "[1]"),
  stringTensorCase("fewer texts than the shape has", bytesOf(2), "[2]"),
  stringTensorCase("more texts than the shape has", bytesOf(2, 2, 2), "[2]"),
];

async function runAtEdgeAndRegion(
  system: FaultSystem,
  cases: readonly RejectionCase[],
): Promise<ScenarioResult> {
  const edge = (await system.getTensorEdge()).url;
  const reached: ScenarioResult[] = [];
  for (const url of [edge, system.region.url]) {
    reached.push(
      await expectRejections(url, cases, async () => {
        const reply = await sendRequest(url, { path: MATMUL, body: request([input()]) });
        return reply.status === 200 && /"data":\[2,44\]/.test(reply.text)
          ? undefined
          : `a right request got ${formatReply(reply)}`;
      }),
    );
  }
  return mergeResults(reached);
}

interface SpecialNumberRequest {
  readonly how: string;
  readonly body: string | Buffer;
  /** Length of the JSON before binary data. */
  readonly jsonBytes?: number;
}

/** Requests with NaN, infinities and -0: as texts, bare, and in bytes. */
function createSpecialNumberRequests(): SpecialNumberRequest[] {
  const others = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
  ].map((kind) =>
    input({ name: `${kind}_in`, shape: "[0]", datatype: kind.toUpperCase(), data: "[]" }),
  );
  const half = input({
    name: "fp16_in",
    shape: "[0]",
    datatype: "FP16",
    parameters: '{"binary_data_size":0}',
  });
  const values = '["NaN","Infinity","-Infinity",-0.0,1.5]';
  const bare = "[NaN,Infinity,-Infinity,-0.0,1.5]";
  const floats = (data: string) =>
    ["fp32", "fp64"].map((kind) =>
      input({ name: `${kind}_in`, shape: "[5]", datatype: kind.toUpperCase(), data }),
    );
  const bits = Buffer.from(
    Float32Array.of(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 1.5).buffer,
  );
  const mixed = request([
    ...others,
    half,
    input({
      name: "fp32_in",
      shape: "[5]",
      datatype: "FP32",
      parameters: '{"binary_data_size":20}',
    }),
    floats(values)[1] ?? "",
  ]);
  return [
    { how: "as texts", body: request([...others, half, ...floats(values)]) },
    { how: "bare", body: request([...others, half, ...floats(bare)]) },
    {
      how: "in bytes",
      body: Buffer.concat([Buffer.from(mixed), bits]),
      jsonBytes: Buffer.byteLength(mixed),
    },
  ];
}

/** FP16 has no form in JSON, so that only the other outputs are requested. */
const FLOAT_OUTPUTS = ["fp32", "fp64"].map((kind) => `{"name":"${kind}_out"}`).join(",");

/** Inserts the requested outputs before the last brace of the JSON. */
function withFloatOutputs({ body, jsonBytes }: SpecialNumberRequest) {
  const bytes = Buffer.from(body);
  const lastBrace = (jsonBytes ?? bytes.byteLength) - 1;
  const outputs = Buffer.from(`,"outputs":[${FLOAT_OUTPUTS}]}`);
  return {
    headers:
      jsonBytes === undefined ? {} : { [JSON_LENGTH]: String(lastBrace + outputs.byteLength) },
    body: Buffer.concat([bytes.subarray(0, lastBrace), outputs, bytes.subarray(lastBrace + 1)]),
  };
}

/** Sends and receives numbers that JSON cannot represent, in JSON and in bytes. */
async function runSpecialNumbers(system: FaultSystem): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const expected = /"data":\["NaN","Infinity","-Infinity",-0(\.0)?,1\.5\]/g;
  let cases = 0;
  for (const url of [(await system.getTensorEdge()).url, system.region.url]) {
    for (const request of createSpecialNumberRequests()) {
      cases++;
      const reply = await sendRequest(url, { path: IDENTITY, ...withFloatOutputs(request) });
      const matches = reply.text.match(expected)?.length;
      findings.check(
        reply.status === 200 && tryParseJson(reply.text) !== undefined && matches === 2,
        () => `${request.how}: ${formatReply(reply)}`,
      );
    }
  }
  return { figures: { cases }, problems: findings.problems };
}

export const invalidTensors: readonly Scenario[] = [
  {
    group: "shapes",
    name: "shapes, datatypes and names at edge and region",
    expected: "400 with the reason",
    run: (system) => runAtEdgeAndRegion(system, shapes),
  },
  {
    group: "JSON and lengths",
    name: "JSON, header lengths and binary data at edge and region",
    expected: "400, alive, quick",
    run: (system) => runAtEdgeAndRegion(system, [...json, ...strings]),
  },
  {
    group: "NaN, Inf, -0",
    name: "in and out at edge and region",
    expected: "valid JSON, documented form",
    run: runSpecialNumbers,
  },
];
