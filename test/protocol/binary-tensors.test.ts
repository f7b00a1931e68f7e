// Tests binary tensor data: round trips of every datatype in requests and responses, and rejection of invalid data.
// Details are Triton's texts, which its clients match.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EdgeTierError } from "../../src/core/errors.ts";
import { DATATYPES, type Tensor, typedArrays } from "../../src/core/tensor.ts";
import {
  decodeInferRequest,
  decodeInferResponse,
  decodeRawInferRequest,
  encodeInferRequest,
  encodeInferResponse,
  wantsBinaryOutput,
} from "../../src/protocol/open-inference.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

/** A tensor of any datatype, with any bit pattern. */
const tensorArbitrary: fc.Arbitrary<Tensor> = fc
  .tuple(fc.constantFrom(...DATATYPES), fc.nat({ max: 6 }), fc.boolean())
  .chain(([datatype, count, column]) => {
    const shape = column ? [count, 1] : [count];
    if (datatype === "BYTES")
      return fc
        .array(fc.uint8Array({ maxLength: 9 }), { minLength: count, maxLength: count })
        .map((data): Tensor => ({ datatype, shape, data }));
    const size = count * typedArrays[datatype].BYTES_PER_ELEMENT;
    return fc
      .uint8Array({ minLength: size, maxLength: size })
      .map(
        (raw) =>
          ({ datatype, shape, data: new typedArrays[datatype](raw.slice().buffer) }) as Tensor,
      );
  });
const namedTensorsArbitrary = fc.dictionary(fc.constantFrom("a", "b", "logits"), tensorArbitrary, {
  minKeys: 1,
  noNullPrototype: true,
});

const encodeRequest = (fields: object, data: Uint8Array) => {
  const json = bytes(
    JSON.stringify({
      inputs: [{ name: "x", ...fields, parameters: { binary_data_size: data.byteLength } }],
    }),
  );
  return [Uint8Array.of(...json, ...data), json.byteLength] as const;
};

describe("binary tensor data", () => {
  it("round-trips every tensor, as input and as output (property)", () => {
    fc.assert(
      fc.property(
        namedTensorsArbitrary,
        fc.constantFrom("a", "b", "logits"),
        (inputs, jsonOutput) => {
          const request = encodeInferRequest({ id: "7", inputs }, true);
          expect(decodeInferRequest(request.body, request.jsonBytes)).toMatchObject({ id: "7" });
          expect(decodeInferRequest(request.body, request.jsonBytes).inputs).toStrictEqual(inputs);
          const isBinary = (name: string) =>
            name !== jsonOutput || !["INT32", "UINT8"].includes(inputs[name]?.datatype ?? ""); // some outputs stay in JSON
          const response = encodeInferResponse({ model: "m", outputs: inputs }, isBinary);
          expect(decodeInferResponse(response.body, response.jsonBytes).outputs).toStrictEqual(
            inputs,
          );
        },
      ),
    );
  });

  it("has the layout of the protocol", () => {
    const text: Tensor = { datatype: "BYTES", shape: [2], data: [bytes("ab"), bytes("")] };
    const number: Tensor = { datatype: "INT16", shape: [1], data: Int16Array.of(-2) };
    const { body, jsonBytes = 0 } = encodeInferRequest({ inputs: { text, number } }, true);
    expect(JSON.parse(new TextDecoder().decode(body.subarray(0, jsonBytes)))).toEqual({
      inputs: [
        { name: "text", datatype: "BYTES", shape: [2], parameters: { binary_data_size: 10 } },
        { name: "number", datatype: "INT16", shape: [1], parameters: { binary_data_size: 2 } },
      ],
    });
    expect([...body.subarray(jsonBytes)]).toEqual([2, 0, 0, 0, 0x61, 0x62, 0, 0, 0, 0, 0xfe, 0xff]);
  });

  it("is decoded or rejected, however it is truncated or changed (property)", () => {
    fc.assert(
      fc.property(
        namedTensorsArbitrary,
        fc.nat(),
        fc.nat(255),
        fc.nat(),
        (inputs, at, value, keep) => {
          const { body, jsonBytes = 0 } = encodeInferRequest({ inputs }, true);
          const changed = body.slice(0, keep % (body.byteLength + 1));
          if (changed.byteLength > 0) changed[at % changed.byteLength] = value;
          expect(decodeOutcome(changed, jsonBytes)).toBeOneOf(["decoded", 400]);
        },
      ),
    );
  });
});

describe("invalid binary tensor data", () => {
  it.each<[description: string, fields: object, data: number[], detail: RegExp]>([
    [
      "too few bytes",
      { datatype: "FP32", shape: [2] },
      [0, 0, 0, 0],
      /^input byte size mismatch for input 'x'\. Expected 8, got 4\./,
    ],
    ["too many bytes", { datatype: "INT8", shape: [1] }, [1, 2], /Expected 1, got 2\./],
    [
      "a count beyond all bytes",
      { datatype: "INT8", shape: [65_536, 65_536] },
      [1],
      /too many elements/,
    ],
    [
      "a truncated length",
      { datatype: "BYTES", shape: [1] },
      [1, 0, 0],
      /^incomplete string length indicator for inference input 'x', expecting 4 bytes but only 3 bytes available/,
    ],
    [
      "a truncated element",
      { datatype: "BYTES", shape: [1] },
      [5, 0, 0, 0, 1],
      /^incomplete string data for inference input 'x', expecting string of length 5 but only 1 bytes available/,
    ],
    [
      "a huge length",
      { datatype: "BYTES", shape: [1] },
      [255, 255, 255, 255],
      /expecting string of length 4294967295 but only 0 bytes/,
    ],
    [
      "too few elements",
      { datatype: "BYTES", shape: [2] },
      [0, 0, 0, 0],
      /^expected 2 string elements for inference input 'x', got 1/,
    ],
    [
      "too many elements",
      { datatype: "BYTES", shape: [1] },
      [0, 0, 0, 0, 0, 0, 0, 0],
      /expected 1 string elements .*, got more/,
    ],
  ])("is rejected: %s", (_description, fields, data, detail) => {
    expect(() => decodeInferRequest(...encodeRequest(fields, Uint8Array.from(data)))).toThrow(
      expect.objectContaining({ code: "invalid_tensor", detail: expect.stringMatching(detail) }),
    );
  });
});

/** Returns the status of an EdgeTierError; rethrows any other error. */
function decodeOutcome(body: Uint8Array, jsonBytes: number): "decoded" | number {
  try {
    decodeInferRequest(body, jsonBytes);
    return "decoded";
  } catch (error) {
    if (error instanceof EdgeTierError) return error.status;
    throw error;
  }
}

describe("wantsBinaryOutput", () => {
  const inputs = {};
  it("prefers the output's parameter, then the request's, and defaults to false", () => {
    const outputs = [
      { name: "yes", parameters: { binary_data: true } },
      { name: "no", parameters: { binary_data: false } },
      { name: "open" },
    ];
    const readAll = (parameters: { readonly binary_data_output?: boolean }) => ({
      yes: wantsBinaryOutput({ inputs, outputs, parameters }, "yes"),
      no: wantsBinaryOutput({ inputs, outputs, parameters }, "no"),
      open: wantsBinaryOutput({ inputs, outputs, parameters }, "open"),
    });
    expect(readAll({})).toEqual({ yes: true, no: false, open: false });
    expect(readAll({ binary_data_output: true })).toEqual({ yes: true, no: false, open: true });
    expect(wantsBinaryOutput({ inputs, parameters: { binary_data_output: true } }, "any")).toBe(
      true,
    );
  });
});

describe("a raw binary request", () => {
  it("is one row of the model's only input", () => {
    const spec = { name: "x", datatype: "INT16", shape: [-1, 2, -1] } as const;
    expect(decodeRawInferRequest(Uint8Array.of(1, 0, 2, 0, 3, 0, 4, 0), [spec]).inputs).toEqual({
      x: { datatype: "INT16", shape: [1, 2, 2], data: Int16Array.of(1, 2, 3, 4) },
    });
    expect(
      decodeRawInferRequest(bytes("any text"), [{ name: "x", datatype: "BYTES", shape: [-1] }]),
    ).toEqual({
      parameters: { binary_data_output: true },
      inputs: { x: { datatype: "BYTES", shape: [1], data: [bytes("any text")] } },
    });
  });

  it.each<[description: string, size: number, shapes: number[][], detail: RegExp]>([
    [
      "a model of two inputs",
      4,
      [[-1], [-1]],
      /^Raw request must only have 1 input to be deduced but got 2 inputs/,
    ],
    ["an incomplete row", 3, [[-1, 2]], /Expected 4, got 3\./],
    [
      "two variable dimensions",
      4,
      [[-1, -1, -1]],
      /^The shape of the raw input 'x0' can not be deduced/,
    ],
    ["an empty body for a fixed shape", 0, [[1, 2]], /Expected 4, got 0\./],
  ])("is rejected: %s", (_description, size, shapes, detail) => {
    const specs = shapes.map((shape, index) => ({
      name: `x${index}`,
      datatype: "INT16" as const,
      shape,
    }));
    expect(() => decodeRawInferRequest(new Uint8Array(size), specs)).toThrow(detail);
  });
});
