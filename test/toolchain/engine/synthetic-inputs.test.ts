// Synthetic inputs: their shapes, datatypes and values.
import { describe, expect, it } from "vitest";
import { countElements, type NamedTensors, type TensorSpec } from "../../../src/core/tensor.ts";
import {
  createProfilingInputs,
  createValidationInputs,
  createWarmUpInputs,
} from "../../../src/toolchain/engine/synthetic-inputs.ts";

const textSpecs: readonly TensorSpec[] = [
  { name: "ids", datatype: "INT64", shape: [-1, -1] },
  { name: "mask", datatype: "INT64", shape: [-1, -1] },
  { name: "scale", datatype: "FP32", shape: [3] },
];
const imageSpecs: readonly TensorSpec[] = [
  { name: "pixels", datatype: "FP32", shape: [-1, 3, 224, 224] },
];
const anySize: unknown = expect.any(Number);
const shapesOf = (inputs: readonly NamedTensors[], name: string) =>
  inputs.map((tensors) => String(tensors[name]?.shape));
const dataOf = (tensors: NamedTensors | undefined, name: string) => [
  ...((tensors?.[name]?.data ?? []) as Iterable<number | bigint>),
];

describe.each([
  ["warm-up", createWarmUpInputs],
  ["profile", createProfilingInputs],
  ["validation", createValidationInputs],
] as const)("%s inputs", (_name, createInputs) => {
  it("have every input, with its datatype and a matching shape", () => {
    for (const tensors of createInputs(textSpecs)) {
      expect(Object.keys(tensors)).toEqual(["ids", "mask", "scale"]);
      for (const { name, datatype, shape } of textSpecs) {
        const tensor = tensors[name];
        expect(tensor).toMatchObject({
          datatype,
          shape: shape.map((dimension) => (dimension === -1 ? anySize : dimension)),
        });
        expect(tensor?.data).toHaveLength(countElements(name, tensor?.shape ?? []));
      }
      expect(tensors["ids"]?.shape).toEqual(tensors["mask"]?.shape);
    }
  });

  it("are the same each time", () => {
    expect(createInputs(textSpecs)).toEqual(createInputs(textSpecs));
  });

  it("are few if one row is large", () => {
    const rows = createInputs(imageSpecs).reduce(
      (sum, tensors) => sum + (tensors["pixels"]?.shape[0] ?? 0),
      0,
    );
    expect(rows).toBeLessThan(16);
  });
});

describe("profile and validation inputs", () => {
  const selectSizes = (shapes: readonly string[]) =>
    new Set(shapes.filter((shape) => !/^[01],/.test(shape)));

  it("have different sizes, except the smallest, and different values", () => {
    const profiled = selectSizes(shapesOf(createProfilingInputs(textSpecs), "ids"));
    const validated = selectSizes(shapesOf(createValidationInputs(textSpecs), "ids"));
    expect(validated.size).toBeGreaterThan(20);
    const other = [...validated].filter((shape) => !profiled.has(shape));
    expect(other.length).toBeGreaterThan(0.9 * validated.size);
    const [profilingInput] = createProfilingInputs(textSpecs);
    const sameSize = createValidationInputs(textSpecs).find(
      ({ ids }) => String(ids?.shape) === String(profilingInput?.["ids"]?.shape),
    );
    expect(dataOf(sameSize, "scale")).not.toEqual(dataOf(profilingInput, "scale"));
  });

  it.each([
    ["profile", createProfilingInputs],
    ["validation", createValidationInputs],
  ] as const)(
    "enter error paths and empty batches, then a normal batch again: %s",
    (_name, createInputs) => {
      const inputs = createInputs(textSpecs);
      expect(
        inputs.some((tensors) => dataOf(tensors, "ids").some((value) => value > 1_000_000n)),
      ).toBe(true);
      expect(shapesOf(inputs, "ids")).toEqual(expect.arrayContaining(["0,1", "1,0"]));
      expect(shapesOf(inputs, "ids").at(-1)).toBe("1,1");
      expect([0n, 1n]).toContain(dataOf(inputs.at(-1), "ids")[0]);
    },
  );
});
