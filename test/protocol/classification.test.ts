import { expect, it } from "vitest";
import type { Tensor } from "../../src/core/tensor.ts";
import { encodeClassification } from "../../src/protocol/classification.ts";

const decodeTexts = ({ shape, data }: Tensor) => [
  shape,
  (data as readonly Uint8Array[]).map((element) => new TextDecoder().decode(element)),
];

it("names the largest values of each row, as Triton writes them", () => {
  const logits: Tensor = {
    datatype: "FP32",
    shape: [2, 3],
    data: Float32Array.of(0.5, 2, 1, -1, -3, -2),
  };
  expect(decodeTexts(encodeClassification("logits", logits, 2, ["no", "yes", "maybe"]))).toEqual([
    [2, 2],
    ["2.000000:1:yes", "1.000000:2:maybe", "-1.000000:0:no", "-2.000000:2:maybe"],
  ]);
});

it("keeps the order of equals, gives all where there are fewer, and leaves unknown labels out", () => {
  const votes: Tensor = {
    datatype: "INT64",
    shape: [1, 3],
    data: BigInt64Array.of(7n, 9007199254740993n, 7n),
  };
  expect(decodeTexts(encodeClassification("votes", votes, 9, ["a"]))).toEqual([
    [1, 3],
    ["9007199254740993:1", "7:0:a", "7:2"],
  ]);
  expect(
    decodeTexts(
      encodeClassification(
        "none",
        { datatype: "FP32", shape: [0, 3], data: new Float32Array() },
        2,
      ),
    ),
  ).toEqual([[0, 0], []]);
});

it("refuses what holds no numbers", () => {
  expect(() =>
    encodeClassification("text", { datatype: "BYTES", shape: [1], data: [new Uint8Array()] }, 1),
  ).toThrow(/^class result not available for output due to unsupported type/);
  expect(() =>
    encodeClassification("half", { datatype: "FP16", shape: [1], data: new Uint16Array(1) }, 1),
  ).toThrow(/^class result not available for output due to unsupported type/);
  expect(() =>
    encodeClassification("scalar", { datatype: "FP32", shape: [], data: new Float32Array(1) }, 1),
  ).toThrow(/^class result not available for output due to unsupported type/);
});
