// Inputs that are made from what a graph declares.
import { describe, expect, it } from "vitest";
import {
  createProfilingInputs,
  createValidationInputs,
  createWarmUpInputs,
} from "../../../src/toolchain/engine/synthetic-inputs.ts";
import { countElements, type NamedTensors, type TensorSpec } from "../../../src/core/tensor.ts";

const text: readonly TensorSpec[] = [
  { name: "ids", datatype: "INT64", shape: [-1, -1] },
  { name: "mask", datatype: "INT64", shape: [-1, -1] },
  { name: "scale", datatype: "FP32", shape: [3] },
];
const image: readonly TensorSpec[] = [
  { name: "pixels", datatype: "FP32", shape: [-1, 3, 224, 224] },
];
const shapesOf = (inputs: readonly NamedTensors[], name: string) =>
  inputs.map((tensors) => String(tensors[name]?.shape));
const dataOf = (tensors: NamedTensors | undefined, name: string) => [
  ...((tensors?.[name]?.data ?? []) as Iterable<number | bigint>),
];

describe.each([
  ["warm-up", createWarmUpInputs],
  ["profile", createProfilingInputs],
  ["validation", createValidationInputs],
] as const)("%s inputs", (_what, inputsOf) => {
  it("have every input, in its datatype and in shapes that fit it", () => {
    for (const tensors of inputsOf(text)) {
      expect(Object.keys(tensors)).toEqual(["ids", "mask", "scale"]);
      for (const { name, datatype, shape } of text) {
        const tensor = tensors[name];
        expect([tensor?.datatype, tensor?.shape.length, tensor?.data.length]).toEqual([
          datatype,
          shape.length,
          countElements(name, tensor?.shape ?? []),
        ]);
        expect(
          shape.every((dimension, axis) => dimension === -1 || dimension === tensor?.shape[axis]),
        ).toBe(true);
      }
      expect(tensors["ids"]?.shape).toEqual(tensors["mask"]?.shape);
    }
  });

  it("are the same each time", () => {
    expect(inputsOf(text)).toEqual(inputsOf(text));
  });

  it("are few where one row is large", () => {
    const rows = inputsOf(image).reduce(
      (sum, tensors) => sum + (tensors["pixels"]?.shape[0] ?? 0),
      0,
    );
    expect(rows).toBeLessThan(16);
  });
});

describe("profile and validation inputs", () => {
  const sizesOnly = (shapes: readonly string[]) =>
    new Set(shapes.filter((shape) => !/^[01],/.test(shape)));

  it("are of other sizes, the smallest apart, and of other values", () => {
    const [profiled, validated] = [
      sizesOnly(shapesOf(createProfilingInputs(text), "ids")),
      sizesOnly(shapesOf(createValidationInputs(text), "ids")),
    ];
    expect(validated.size).toBeGreaterThan(20);
    const other = [...validated].filter((shape) => !profiled.has(shape));
    expect(other.length).toBeGreaterThan(0.9 * validated.size);
    const [profile] = createProfilingInputs(text);
    const twin = createValidationInputs(text).find(
      ({ ids }) => String(ids?.shape) === String(profile?.["ids"]?.shape),
    );
    expect(dataOf(twin, "scale")).not.toEqual(dataOf(profile, "scale"));
  });

  it.each([
    ["profile", createProfilingInputs],
    ["validation", createValidationInputs],
  ] as const)(
    "take error paths and empty batches, then the usual one again: %s",
    (_what, inputsOf) => {
      const inputs = inputsOf(text);
      expect(
        inputs.some((tensors) => dataOf(tensors, "ids").some((value) => value > 1_000_000n)),
      ).toBe(true);
      expect(shapesOf(inputs, "ids")).toEqual(expect.arrayContaining(["0,1", "1,0"]));
      expect(shapesOf(inputs, "ids").at(-1)).toBe("1,1");
      expect([0n, 1n]).toContain(dataOf(inputs.at(-1), "ids")[0]);
    },
  );
});
