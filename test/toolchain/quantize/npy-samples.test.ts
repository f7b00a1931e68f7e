// Tests samples from NumPy arrays.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { NamedTensors, TensorSpec } from "../../../src/core/tensor.ts";
import { readNpySamples } from "../../../src/toolchain/quantize/npy-samples.ts";
import { encodeNpy } from "./encode-npy.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-samples-"));
});
afterAll(async () => await rm(folder, { recursive: true }));

const ids: TensorSpec = { name: "ids", datatype: "INT64", shape: [-1, -1] };
const x: TensorSpec = { name: "x", datatype: "FP32", shape: [-1, 2] };

async function collectSamples(
  name: string,
  content: Uint8Array,
  specs: readonly TensorSpec[],
  limit?: number,
): Promise<NamedTensors[]> {
  const path = join(folder, name);
  await writeFile(path, content);
  const samples: NamedTensors[] = [];
  for await (const sample of readNpySamples(path, specs, limit)) samples.push(sample);
  return samples;
}

describe("a NumPy array", () => {
  const four = encodeNpy("<f4", [2, 2], Float32Array.of(1, 2, 3, 4));

  it("has one sample per row", async () => {
    const rows = [
      { x: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(1, 2) } },
      { x: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(3, 4) } },
    ];
    expect(await collectSamples("a.npy", four, [x])).toEqual(rows);
    expect(await collectSamples("a.npy", four, [x], 1)).toEqual(rows.slice(0, 1));
    expect(
      await collectSamples("b.npy", encodeNpy("|u1", [2, 2], Uint8Array.of(1, 2, 3, 4)), [x]),
    ).toEqual(rows);
    expect(
      await collectSamples("c.npy", encodeNpy("<i4", [1, 2], Int32Array.of(7, 8)), [ids]),
    ).toEqual([{ ids: { datatype: "INT64", shape: [1, 2], data: BigInt64Array.of(7n, 8n) } }]);
  });

  it("supports several iterations", async () => {
    const path = join(folder, "again.npy");
    await writeFile(path, four);
    const samples = readNpySamples(path, [x]);
    for (const _ of [1, 2]) {
      let count = 0;
      for await (const sample of samples) count += sample["x"] === undefined ? 0 : 1;
      expect(count).toBe(2);
    }
  });

  it.each<[string, Uint8Array, readonly TensorSpec[], RegExp]>([
    ["invalid content", new TextEncoder().encode("not an array at all"), [x], /\bNumPy array\b/],
    ["complex numbers", encodeNpy("<c8", [1, 2], new Float32Array(4)), [x], /"<c8"/],
    ["a truncated file", four.subarray(0, -1), [x], /\btruncated\b/],
    ["a graph with two inputs", four, [ids, x], /2 inputs \(ids, x\)/],
    ["a scalar", encodeNpy("<f4", [], Float32Array.of(1)), [x], /\brows\b/],
    ["zero rows", encodeNpy("<f4", [0, 2], Float32Array.of()), [x], /\brows\b/],
  ])("is rejected with %s", async (_, content, specs, detail) => {
    await expect(collectSamples("d.npy", content, specs)).rejects.toMatchObject({
      code: "invalid_tensor_samples",
      detail: expect.stringMatching(detail),
    });
  });
});

it("a missing NumPy file is rejected", async () => {
  await expect(
    readNpySamples(join(folder, "missing.npy"), [x])[Symbol.asyncIterator]().next(),
  ).rejects.toMatchObject({
    code: "invalid_tensor_samples",
    detail: expect.stringMatching(/missing\.npy .*ENOENT/),
  });
});
