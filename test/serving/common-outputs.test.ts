// Common outputs: the outputs that tiers share, and tensors gathered from rows of several graphs.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NamedTensors, TensorSpec } from "../../src/core/tensor.ts";
import { gatherRows, commonOutputs } from "../../src/serving/common-outputs.ts";

const logits: TensorSpec = { name: "logits", datatype: "FP32", shape: [-1, 2] };

describe("commonOutputs", () => {
  const tiers = (...outputs: TensorSpec[][]) => outputs.map((specs) => ({ outputs: specs }));

  it.each<[name: string, first: TensorSpec, second: TensorSpec, isShared: boolean]>([
    ["the same", logits, logits, true],
    ["a scalar a row", { ...logits, shape: [-1] }, { ...logits, shape: [-1] }, true],
    ["another name", logits, { ...logits, name: "scores" }, false],
    ["another datatype", logits, { ...logits, datatype: "FP64" }, false],
    ["another row", logits, { ...logits, shape: [-1, 3] }, false],
    ["another rank", logits, { ...logits, shape: [-1, 2, 1] }, false],
    ["rows of any length", { ...logits, shape: [-1, -1] }, { ...logits, shape: [-1, -1] }, false],
    ["no rows", { ...logits, shape: [1, 2] }, { ...logits, shape: [1, 2] }, false],
    ["no dimension", { ...logits, shape: [] }, { ...logits, shape: [] }, false],
  ])("compares outputs by name, datatype and row shape: %s", (_name, first, second, isShared) => {
    expect(commonOutputs(tiers([first], [second]))).toEqual(isShared ? [first] : []);
  });

  it("keeps the first tier's order, and returns all outputs of a single tier", () => {
    const other = { ...logits, name: "other" };
    expect(commonOutputs(tiers([logits, other], [other, logits]))).toEqual([logits, other]);
    expect(commonOutputs(tiers([logits, other]))).toEqual([logits, other]);
    expect(commonOutputs([])).toEqual([]);
  });
});

const small: NamedTensors = {
  logits: { datatype: "FP32", shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) },
  big: { datatype: "INT64", shape: [2], data: BigInt64Array.of(2n ** 63n - 1n, -1n) },
  words: {
    datatype: "BYTES",
    shape: [2, 2],
    data: ["a", "b", "c", "d"].map((text) => new TextEncoder().encode(text)),
  },
};
const large: NamedTensors = {
  logits: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(9, -0) },
  big: { datatype: "INT64", shape: [1], data: BigInt64Array.of(7n) },
  words: {
    datatype: "BYTES",
    shape: [1, 2],
    data: ["x", "y"].map((text) => new TextEncoder().encode(text)),
  },
};
const specs: TensorSpec[] = [
  logits,
  { name: "big", datatype: "INT64", shape: [-1] },
  { name: "words", datatype: "BYTES", shape: [-1, 2] },
];

describe("gatherRows", () => {
  it("gathers rows of several graphs into one tensor", () => {
    const gathered = gatherRows(specs, [
      { outputs: small, row: 1 },
      { outputs: large, row: 0 },
      { outputs: small, row: 0 },
    ]);
    expect(gathered["logits"]).toEqual({
      datatype: "FP32",
      shape: [3, 2],
      data: Float32Array.of(3, 4, 9, -0, 1, 2),
    });
    expect(gathered["big"]).toEqual({
      datatype: "INT64",
      shape: [3],
      data: BigInt64Array.of(-1n, 7n, 2n ** 63n - 1n),
    });
    expect(gathered["words"]).toEqual({
      datatype: "BYTES",
      shape: [3, 2],
      data: ["c", "d", "x", "y", "a", "b"].map((text) => new TextEncoder().encode(text)),
    });
  });

  it("gathers no rows, and rows of any width", () => {
    expect(gatherRows([logits], [])).toEqual({
      logits: { datatype: "FP32", shape: [0, 2], data: new Float32Array() },
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 0, max: 6 }),
        fc.array(fc.nat(4), { maxLength: 9 }),
        (count, width, order) => {
          const data = Float64Array.from({ length: count * width }, (_, index) => index);
          const outputs: NamedTensors = { y: { datatype: "FP64", shape: [count, width], data } };
          const rows = order.map((row) => row % count);
          const expected = rows.flatMap((row) => [
            ...data.subarray(row * width, (row + 1) * width),
          ]);
          const gathered = gatherRows(
            [{ name: "y", datatype: "FP64", shape: [-1, width] }],
            rows.map((row) => ({ outputs, row })),
          );
          expect(gathered["y"]).toEqual({
            datatype: "FP64",
            shape: [rows.length, width],
            data: Float64Array.from(expected),
          });
        },
      ),
    );
  });
});

describe("gatherRows for mismatching graphs", () => {
  it.each<[name: string, outputs: NamedTensors, found: string]>([
    ["no tensor", {}, "missing"],
    [
      "another datatype",
      { logits: { datatype: "FP64", shape: [1, 2], data: new Float64Array(2) } },
      "FP64 [1, 2]",
    ],
    [
      "another shape",
      { logits: { datatype: "FP32", shape: [1, 3], data: new Float32Array(3) } },
      "FP32 [1, 3]",
    ],
    [
      "too few rows",
      { logits: { datatype: "FP32", shape: [0, 2], data: new Float32Array() } },
      "FP32 [0, 2]",
    ],
  ])("rejects %s from a graph", (_name, outputs, found) => {
    expect(() =>
      gatherRows(
        [logits],
        [
          { outputs: small, row: 0 },
          { outputs, row: 0 },
        ],
      ),
    ).toThrow(
      expect.objectContaining({ code: "session_failed", detail: expect.stringContaining(found) }),
    );
  });
});
