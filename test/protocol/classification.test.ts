import { expect, it } from "vitest";
import type { Tensor } from "../../src/core/tensor.ts";
import { encodeClassification } from "../../src/protocol/classification.ts";

const decodeTexts = ({ shape, data }: Tensor) => ({
  shape,
  texts: (data as readonly Uint8Array[]).map((element) => new TextDecoder().decode(element)),
});

it("returns the largest values of each row in Triton's format", () => {
  const logits: Tensor = {
    datatype: "FP32",
    shape: [2, 3],
    data: Float32Array.of(0.5, 2, 1, -1, -3, -2),
  };
  expect(decodeTexts(encodeClassification("logits", logits, 2, ["no", "yes", "maybe"]))).toEqual({
    shape: [2, 2],
    texts: ["2.000000:1:yes", "1.000000:2:maybe", "-1.000000:0:no", "-2.000000:2:maybe"],
  });
});

it("keeps the order of equal values, returns at most all values, and omits unknown labels", () => {
  const votes: Tensor = {
    datatype: "INT64",
    shape: [1, 3],
    data: BigInt64Array.of(7n, 9007199254740993n, 7n),
  };
  expect(decodeTexts(encodeClassification("votes", votes, 9, ["a"]))).toEqual({
    shape: [1, 3],
    texts: ["9007199254740993:1", "7:0:a", "7:2"],
  });
  expect(
    decodeTexts(
      encodeClassification(
        "none",
        { datatype: "FP32", shape: [0, 3], data: new Float32Array() },
        2,
      ),
    ),
  ).toEqual({ shape: [0, 0], texts: [] });
});

it("rejects tensors without comparable numbers", () => {
  expect(() =>
    encodeClassification("text", { datatype: "BYTES", shape: [1], data: [new Uint8Array()] }, 1),
  ).toThrow(expect.objectContaining({ code: "invalid_tensor" }));
  expect(() =>
    encodeClassification("half", { datatype: "FP16", shape: [1], data: new Uint16Array(1) }, 1),
  ).toThrow(expect.objectContaining({ code: "invalid_tensor" }));
  expect(() =>
    encodeClassification("scalar", { datatype: "FP32", shape: [], data: new Float32Array(1) }, 1),
  ).toThrow(expect.objectContaining({ code: "invalid_tensor" }));
});
