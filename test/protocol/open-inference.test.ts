// Tests the Open Inference Protocol codec: round trips of every datatype, and rejection of malformed messages. Anchored
// details are Triton's texts, which its clients match. This file exceeds 300 lines because of its table of invalid requests.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EdgeTierError } from "../../src/core/errors.ts";
import type { Datatype, Tensor } from "../../src/core/tensor.ts";
import {
  decodeInferRequest,
  decodeInferResponse,
  encodeInferRequest,
  encodeInferResponse,
} from "../../src/protocol/open-inference.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const request = (inputs: unknown, rest: object = {}) => bytes(JSON.stringify({ inputs, ...rest }));
const tensor = (fields: object) => ({
  name: "x",
  shape: [1],
  datatype: "INT32",
  data: [1],
  ...fields,
});

function decodeError(body: Uint8Array): EdgeTierError {
  try {
    decodeInferRequest(body);
  } catch (error) {
    if (error instanceof EdgeTierError) return error;
    throw error;
  }
  throw new Error("the request was accepted");
}

const shaped = <Data extends { length: number }>(data: fc.Arbitrary<Data>) =>
  fc.tuple(data, fc.boolean()).map(([values, column]) => ({
    data: values,
    shape: column ? [values.length, 1] : [values.length],
  }));
const list = { maxLength: 20 };
const utf8 = fc
  .string({ unit: fc.oneof(fc.constant("\u{feff}"), fc.string({ unit: "binary" })) })
  .filter((text) => text.isWellFormed());
const arbitraries: Record<Exclude<Datatype, "FP16" | "BF16">, fc.Arbitrary<Tensor>> = {
  BOOL: shaped(fc.array(fc.constantFrom(0, 1), list).map((values) => Uint8Array.from(values))).map(
    (fields) => ({ datatype: "BOOL", ...fields }),
  ),
  UINT8: shaped(fc.uint8Array(list)).map((fields) => ({ datatype: "UINT8", ...fields })),
  UINT16: shaped(fc.uint16Array(list)).map((fields) => ({ datatype: "UINT16", ...fields })),
  UINT32: shaped(fc.uint32Array(list)).map((fields) => ({ datatype: "UINT32", ...fields })),
  UINT64: shaped(fc.bigUint64Array(list)).map((fields) => ({ datatype: "UINT64", ...fields })),
  INT8: shaped(fc.int8Array(list)).map((fields) => ({ datatype: "INT8", ...fields })),
  INT16: shaped(fc.int16Array(list)).map((fields) => ({ datatype: "INT16", ...fields })),
  INT32: shaped(fc.int32Array(list)).map((fields) => ({ datatype: "INT32", ...fields })),
  INT64: shaped(fc.bigInt64Array(list)).map((fields) => ({ datatype: "INT64", ...fields })),
  FP32: shaped(fc.float32Array(list)).map((fields) => ({ datatype: "FP32", ...fields })),
  FP64: shaped(fc.float64Array(list)).map((fields) => ({ datatype: "FP64", ...fields })),
  BYTES: shaped(fc.array(utf8.map(bytes), list)).map((fields) => ({
    datatype: "BYTES",
    ...fields,
  })),
};

describe("encoding and decoding", () => {
  it.each(Object.entries(arbitraries))(
    "round-trips every %s tensor, as input and as output (property)",
    (_datatype, arbitrary) => {
      fc.assert(
        fc.property(arbitrary, (x) => {
          expect(
            decodeInferRequest(encodeInferRequest({ inputs: { x } }).body).inputs,
          ).toStrictEqual({ x });
          expect(
            decodeInferResponse(encodeInferResponse({ model: "m", outputs: { x } }).body).outputs,
          ).toStrictEqual({ x });
        }),
      );
    },
  );

  it("preserves ids, parameters and outputs", () => {
    const inputs = { x: { datatype: "INT32", shape: [1], data: Int32Array.of(7) } } as const;
    const message = {
      id: "42",
      parameters: { tier: "large", timeout: 1500, flag: true },
      inputs,
      outputs: [{ name: "y", parameters: {} }],
    };
    expect(decodeInferRequest(encodeInferRequest(message).body)).toStrictEqual(message);
    const response = {
      model: "intent",
      version: "3",
      id: "42",
      parameters: { tier: "large" },
      outputs: inputs,
    };
    expect(decodeInferResponse(encodeInferResponse(response).body)).toStrictEqual(response);
  });

  it("writes numbers without a JSON form in the documented form", () => {
    const x = {
      datatype: "FP32",
      shape: [4],
      data: Float32Array.of(NaN, Infinity, -Infinity, -0),
    } as const;
    const big = {
      datatype: "INT64",
      shape: [2],
      data: BigInt64Array.of(2n ** 53n - 1n, -(2n ** 53n)),
    } as const;
    const text = new TextDecoder().decode(
      encodeInferResponse({ model: "m", outputs: { x, big } }).body,
    );
    expect(text).toContain('"data":["NaN","Infinity","-Infinity",-0.0]');
    expect(text).toContain('"data":[9007199254740991,"-9007199254740992"]');
  });
});

describe("a request", () => {
  const decodeData = (text: string) => decodeInferRequest(bytes(text)).inputs["x"]?.data;

  it("may nest its data according to its shape", () => {
    expect(
      decodeInferRequest(
        request([
          tensor({
            shape: [2, 3],
            data: [
              [1, 2, 3],
              [4, 5, 6],
            ],
          }),
        ]),
      ).inputs["x"],
    ).toEqual({
      datatype: "INT32",
      shape: [2, 3],
      data: Int32Array.of(1, 2, 3, 4, 5, 6),
    });
    expect(
      decodeInferRequest(request([tensor({ shape: [2, 0], data: [[], []] })])).inputs["x"]?.data,
    ).toHaveLength(0);
  });

  it("may have a 64-bit integer as a number of any length or as a string", () => {
    const body =
      '{"inputs":[{"name":"x","datatype":"INT64","shape":[4],"data":[9007199254740993,-9223372036854775808,"9223372036854775807", 5]}]}';
    expect(decodeData(body)).toEqual(
      BigInt64Array.of(9007199254740993n, -(2n ** 63n), 2n ** 63n - 1n, 5n),
    );
    expect(
      decodeData(
        '{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[123456789012345678901]}]}',
      ),
    ).toEqual(Float64Array.of(Number("123456789012345678901")));
  });

  it("may omit optional fields or set them to null", () => {
    const body = request([tensor({ parameters: null })], {
      id: null,
      parameters: null,
      outputs: null,
      unknown: { to: "us" },
    });
    expect(decodeInferRequest(body)).toMatchObject({
      id: undefined,
      parameters: {},
      outputs: undefined,
    });
    expect(decodeInferRequest(request([tensor({})], { outputs: [] })).outputs).toBeUndefined();
  });

  it("may use the names of inherited object properties", () => {
    const inputs = decodeInferRequest(
      request([tensor({ name: "__proto__" }), tensor({ name: "toString" })]),
    ).inputs;
    expect(Object.keys(inputs)).toEqual(["__proto__", "toString"]);
  });
});

const nestedRequest = (levels: number) =>
  bytes(`{"inputs":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`);
const invalidRequests: [description: string, body: Uint8Array, code: string, detail: RegExp][] = [
  ["not UTF-8", Uint8Array.of(0x7b, 0xff, 0x7d), "invalid_utf8", /body/],
  ["empty", bytes(""), "invalid_json", /JSON/],
  ["truncated", bytes('{"inputs":['), "invalid_json", /JSON/],
  ["101 levels deep", nestedRequest(101), "invalid_json", /\b100 levels/],
  ["250,000 levels deep", nestedRequest(250_000), "invalid_json", /\b100 levels/],
  ["100 levels deep", nestedRequest(100), "invalid_request", /inputs\.0/],
  ["a list", bytes("[]"), "invalid_request", /object/],
  ["without inputs", bytes("{}"), "invalid_request", /inputs/],
  [
    "inputs that are not an array",
    request({}),
    "invalid_request",
    /^Unable to parse 'inputs': must be an array/,
  ],
  ["a million wrong inputs", request(Array(1_000_000).fill(0)), "invalid_request", /at most 256/],
  ["an unknown field", request([tensor({ raw_data: "AA==" })]), "invalid_request", /raw_data/],
  ["no tensor name", request([tensor({ name: undefined })]), "invalid_request", /inputs\.0\.name/],
  ["an unknown datatype", request([tensor({ datatype: "FP8" })]), "invalid_request", /one of BOOL/],
  [
    "a negative dimension",
    request([tensor({ shape: [-1] })]),
    "invalid_request",
    /^Unable to parse 'inputs\.0\.shape\.0': must not be negative/,
  ],
  ["a fraction as dimension", request([tensor({ shape: [1.5] })]), "invalid_request", /shape\.0/],
  ["a string as dimension", request([tensor({ shape: ["1"] })]), "invalid_request", /shape\.0/],
  [
    "a dimension beyond 2^53",
    bytes('{"inputs":[{"name":"x","datatype":"INT8","shape":[16,1152921504606846978],"data":[]}]}'),
    "invalid_request",
    /shape\.1/,
  ],
  [
    "an element count beyond 2^31",
    request([tensor({ shape: [65536, 65536, 0], data: [] })]),
    "invalid_tensor",
    /too many elements/,
  ],
  [
    "an element count beyond 2^53",
    request([tensor({ shape: [2 ** 40, 2 ** 40], data: [] })]),
    "invalid_tensor",
    /too many elements/,
  ],
  ["rank 33", request([tensor({ shape: Array(33).fill(1) })]), "invalid_request", /at most 32/],
  [
    "too few elements",
    request([tensor({ shape: [2] })]),
    "invalid_tensor",
    /^Unable to parse 'data': Shape does not match true shape of 'data' field: 'x' has 1 elements, its shape is \[2\]/,
  ],
  [
    "a huge shape without data",
    request([tensor({ shape: [2 ** 31 - 1], data: [] })]),
    "invalid_tensor",
    /0 elements/,
  ],
  [
    "data nested unlike its shape",
    request([tensor({ shape: [2, 2], data: [[1, 2, 3], [4]] })]),
    "invalid_tensor",
    /nested/,
  ],
  [
    "data nested too deeply",
    request([tensor({ shape: [1], data: [[1]] })]),
    "invalid_tensor",
    /nested/,
  ],
  [
    "data nested only in part",
    request([tensor({ shape: [2, 1], data: [[1], 2] })]),
    "invalid_tensor",
    /nested/,
  ],
  ["data that is not an array", request([tensor({ data: 1 })]), "invalid_tensor", /not an array/],
  ["null data", request([tensor({ data: null })]), "invalid_tensor", /not an array/],
  [
    "no data",
    request([tensor({ data: undefined })]),
    "invalid_tensor",
    /^Input must set only one of the following fields: .* But no field is set/,
  ],
  [
    "two forms of data",
    request([tensor({ parameters: { binary_data_size: 4 } })]),
    "invalid_tensor",
    /But set 'data' 'binary_data_size'/,
  ],
  [
    "missing binary data",
    request([tensor({ data: undefined, parameters: { binary_data_size: 4 } })]),
    "invalid_request",
    /unexpected size for input 'x', expecting 4 additional bytes/,
  ],
  [
    "a negative size of binary data",
    request([tensor({ data: undefined, parameters: { binary_data_size: -1 } })]),
    "invalid_request",
    /^Unable to parse 'binary_data_size': -1/,
  ],
  [
    "a string as size of binary data",
    request([tensor({ data: undefined, parameters: { binary_data_size: "4" } })]),
    "invalid_request",
    /^Unable to parse 'binary_data_size': "4"/,
  ],
  [
    "shared memory",
    request([tensor({ data: undefined, parameters: { shared_memory_region: "r" } })]),
    "unsupported",
    /Shared memory/,
  ],
  [
    "an input twice",
    request([tensor({}), tensor({})]),
    "invalid_tensor",
    /^input 'x' already exists in request/,
  ],
  [
    "an output twice",
    request([tensor({})], { outputs: [{ name: "y" }, { name: "y" }] }),
    "invalid_tensor",
    /^output 'y' already exists in request/,
  ],
  [
    "an object as parameter",
    request([tensor({})], { parameters: { a: {} } }),
    "invalid_request",
    /parameters\.a/,
  ],
  [
    "FP16 in JSON",
    request([tensor({ datatype: "FP16" })]),
    "invalid_tensor",
    /^receiving FP16 data via JSON is not supported\. Please use the binary data format for input 'x'/,
  ],
  [
    "INT8 out of range",
    request([tensor({ datatype: "INT8", data: [128] })]),
    "invalid_tensor",
    /element 0 is 128, which is not INT8/,
  ],
  ["a fraction as INT32", request([tensor({ data: [0.5] })]), "invalid_tensor", /element 0 is 0.5/],
  ["null as INT32", request([tensor({ data: [null] })]), "invalid_tensor", /element 0 is null/],
  [
    "an object as FP32",
    request([tensor({ datatype: "FP32", data: [{}] })]),
    "invalid_tensor",
    /element 0 is an array or object/,
  ],
  [
    "2 as BOOL",
    request([tensor({ datatype: "BOOL", data: [2] })]),
    "invalid_tensor",
    /element 0 is 2/,
  ],
  [
    "2^64 as UINT64",
    request([tensor({ datatype: "UINT64", data: ["18446744073709551616"] })]),
    "invalid_tensor",
    /not UINT64/,
  ],
  [
    "1e300 as INT64",
    request([tensor({ datatype: "INT64", data: [1e300] })]),
    "invalid_tensor",
    /not INT64/,
  ],
  [
    "an invalid string as INT64",
    request([tensor({ datatype: "INT64", data: ["0x10"] })]),
    "invalid_tensor",
    /not INT64/,
  ],
  [
    "a number in a string as FP32",
    request([tensor({ datatype: "FP32", data: ["1.5"] })]),
    "invalid_tensor",
    /not FP32/,
  ],
  [
    "a number beyond FP32's range",
    request([tensor({ datatype: "FP32", data: [1e39] })]),
    "invalid_tensor",
    /not FP32/,
  ],
  [
    "a number beyond FP64's range",
    bytes('{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[1e999]}]}'),
    "invalid_tensor",
    /not FP64/,
  ],
  [
    "a number as BYTES",
    request([tensor({ datatype: "BYTES", data: [1] })]),
    "invalid_tensor",
    /not BYTES/,
  ],
  [
    "a lone surrogate",
    request([tensor({ datatype: "BYTES", data: ["\ud800"] })]),
    "invalid_utf8",
    /element 0/,
  ],
];

describe("an invalid request", () => {
  it.each(invalidRequests)("is rejected: %s", (_description, body, code, detail) => {
    const error = decodeError(body);
    expect(error).toMatchObject({ code, detail: expect.stringMatching(detail) });
    expect(error.detail.length).toBeLessThan(2_000);
    expect(error.status).toBe(code === "unsupported" ? 501 : 400);
  });

  it("never causes another error than an EdgeTierError, for any JSON (property)", () => {
    const outcome = (body: string) => {
      try {
        return decodeInferRequest(bytes(body)) && "decoded";
      } catch (error) {
        return error instanceof EdgeTierError ? "rejected" : error;
      }
    };
    fc.assert(
      fc.property(fc.json(), fc.json(), (first, second) => {
        for (const body of [
          first,
          `{"inputs":${first}}`,
          `{"inputs":[{"name":"x","datatype":"INT32","shape":${first},"data":${second}}]}`,
        ]) {
          expect(outcome(body)).toBeOneOf(["decoded", "rejected"]);
        }
      }),
    );
  });
});

it("rejects an output without a JSON form", () => {
  const fp16 = { datatype: "FP16", shape: [1], data: Uint16Array.of(0x3c00) } as const;
  const raw = { datatype: "BYTES", shape: [1], data: [Uint8Array.of(0xff)] } as const;
  expect(() => encodeInferResponse({ model: "m", outputs: { fp16 } })).toThrow(
    expect.objectContaining({ code: "invalid_tensor", detail: expect.stringMatching(/FP16/) }),
  );
  expect(() => encodeInferResponse({ model: "m", outputs: { raw } })).toThrow(
    expect.objectContaining({ code: "invalid_tensor", detail: expect.stringMatching(/UTF-8/) }),
  );
});
