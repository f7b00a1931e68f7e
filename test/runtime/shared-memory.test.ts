// Large tensors between a server and its session's process.
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { byteView } from "../../src/core/bytes.ts";
import {
  typedArrays,
  type NamedTensors,
  type NumericDatatype,
  type Tensor,
} from "../../src/core/tensor.ts";
import { createIsolatedRuntime } from "../../src/runtime/native/isolated-runtime.ts";
import {
  closeSharedMemory,
  openSharedMemory,
  writeSharedTensors,
  readSharedTensors,
} from "../../src/runtime/native/shared-memory.ts";

const isShared = (tensors: object, name: string) =>
  !("data" in (Object.entries(tensors).find(([key]) => key === name)?.[1] ?? {}));
const byteTensor = (length: number, fill = 1): Tensor => ({
  datatype: "UINT8",
  shape: [length],
  data: new Uint8Array(length).fill(fill),
});

let file: number;
beforeEach(() => {
  file = openSharedMemory() ?? openSync("/dev/full", "r+");
});
afterEach(() => closeSharedMemory(file));

describe("tensors in a shared file", () => {
  it("round-trip in any number, size and datatype (property)", () => {
    const datatype = fc.constantFrom(...(Object.keys(typedArrays) as NumericDatatype[]));
    const tensor = fc
      .tuple(datatype, fc.integer({ min: 0, max: 20_000 }), fc.nat(255))
      .map(([type, count, fill]): Tensor => {
        const raw = new Uint8Array(count * typedArrays[type].BYTES_PER_ELEMENT).fill(fill);
        return {
          datatype: type,
          shape: [count],
          data: new typedArrays[type](raw.buffer),
        } as Tensor;
      });
    const text: Tensor = { datatype: "BYTES", shape: [1], data: [new Uint8Array(50_000)] };
    fc.assert(
      fc.property(fc.array(tensor, { maxLength: 4 }), (list) => {
        const tensors: NamedTensors = {
          text,
          ...Object.fromEntries(list.map((tensor, index) => [`t${index}`, tensor])),
        };
        const received = readSharedTensors(file, writeSharedTensors(file, tensors));
        expect(Object.keys(received)).toEqual(Object.keys(tensors));
        const different = Object.entries(tensors).filter(
          ([name, tensor]) => !areEqualTensors(tensor, received[name]),
        );
        expect(different.map(([name]) => name)).toEqual([]);
      }),
    );
  });

  it("are shared only if they are large; if they exceed the limit, the message carries them", () => {
    const shared = writeSharedTensors(file, {
      small: byteTensor(100),
      large: byteTensor(100_000),
    });
    expect({ small: isShared(shared, "small"), large: isShared(shared, "large") }).toEqual({
      small: false,
      large: true,
    });
    const huge = { huge: byteTensor(17_000_000), large: byteTensor(100_000) };
    expect(writeSharedTensors(file, huge)).toBe(huge);
  });

  it("stay in the message if the folder is full", () => {
    const full = openSync("/dev/full", "r+");
    const tensors = { large: byteTensor(100_000) };
    expect(writeSharedTensors(full, tensors)).toBe(tensors);
    closeSync(full);
  });
});

describe("tensors read from a shared file", () => {
  it("are views of one reusable buffer", () => {
    const buffer = new ArrayBuffer(200_000);
    const received = readSharedTensors(
      file,
      writeSharedTensors(file, { a: byteTensor(10_001, 7), b: byteTensor(20_000, 9) }),
      () => buffer,
    );
    expect(
      Object.values(received).map(
        (tensor) =>
          tensor.datatype !== "BYTES" && {
            isInBuffer: tensor.data.buffer === buffer,
            misalignment: tensor.data.byteOffset % 64,
            firstElement: tensor.data[0],
          },
      ),
    ).toEqual([
      { isInBuffer: true, misalignment: 0, firstElement: 7 },
      { isInBuffer: true, misalignment: 0, firstElement: 9 },
    ]);
  });
});

it("a process serves runs with large tensors, both sequentially and concurrently", async () => {
  const model = new Uint8Array(
    await readFile(new URL("../fixtures/int64-identity.onnx", import.meta.url)),
  );
  const session = await createIsolatedRuntime("process").createSession(model);
  const run = async (length: number, value: bigint) => {
    const { y } = await session.run({
      x: { datatype: "INT64", shape: [length], data: new BigInt64Array(length).fill(value) },
    });
    return {
      shape: y?.shape,
      first: y?.data[0],
      last: y?.data[length - 1],
      length: y?.data.length,
    };
  };
  const lengths = [100_000, 10, 50_000, 3_000_000, 100_000];
  const expected = lengths.map((length, index) => ({
    shape: [length],
    first: BigInt(index),
    last: BigInt(index),
    length,
  }));
  expect(await Promise.all(lengths.map((length, index) => run(length, BigInt(index))))).toEqual(
    expected,
  );
  const results = [];
  for (const [index, length] of lengths.entries()) results.push(await run(length, BigInt(index)));
  expect(results).toEqual(expected);
  await session.dispose();
});

/** Compares bytes, because comparing large arrays element by element is slow. */
function areEqualTensors(a: Tensor, b: Tensor | undefined): boolean {
  if (b === undefined || a.datatype !== b.datatype || a.shape.join() !== b.shape.join())
    return false;
  const [left, right] = [a, b].map(({ data }) => ("buffer" in data ? [data] : data).map(byteView));
  return (
    left?.length === right?.length &&
    left?.every(
      (bytes, index) => Buffer.compare(bytes, right?.[index] ?? new Uint8Array()) === 0,
    ) === true
  );
}
