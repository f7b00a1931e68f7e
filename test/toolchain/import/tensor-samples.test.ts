// Tests tensor samples, as JSON lines and as ONNX's own test data.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readTensorSamples } from "../../../src/toolchain/import/tensor-samples.ts";
import { TensorProtoSchema } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { floatTensor, int64Tensor } from "../onnx/model-builders.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-samples-"));
});
afterAll(async () => await rm(folder, { recursive: true }));

const tensorSpecs = {
  inputs: [
    { name: "x", datatype: "FP32" as const, shape: [-1, 2] },
    { name: "ids", datatype: "INT64" as const, shape: [-1] },
    { name: "text", datatype: "BYTES" as const, shape: [-1] },
  ],
  outputs: [{ name: "y", datatype: "FP32" as const, shape: [-1, 2] }],
};

async function writeSampleLines(...samples: (object | string)[]): Promise<string> {
  const path = join(folder, "samples.jsonl");
  await writeFile(
    path,
    samples
      .map((sample) => (typeof sample === "string" ? sample : JSON.stringify(sample)))
      .join("\n"),
  );
  return path;
}

describe("JSON lines", () => {
  it("contain flat or nested tensors of all types", async () => {
    const inputs = [
      {
        name: "x",
        shape: [2, 2],
        data: [
          [1, 2],
          [3, 4.5],
        ],
      },
      { name: "ids", shape: [2], data: [7, "9007199254740993"] },
      { name: "text", shape: [1], data: ["é"] },
    ];
    const samples = await readTensorSamples(
      await writeSampleLines(
        { inputs, outputs: [{ name: "y", shape: [1, 2], data: [5, 6] }] },
        "",
        {
          inputs: [{ name: "x", shape: [0, 2], data: [] }],
        },
      ),
      tensorSpecs,
    );
    expect(samples).toEqual([
      {
        inputs: {
          x: { datatype: "FP32", shape: [2, 2], data: Float32Array.of(1, 2, 3, 4.5) },
          ids: { datatype: "INT64", shape: [2], data: BigInt64Array.of(7n, 9007199254740993n) },
          text: { datatype: "BYTES", shape: [1], data: [new TextEncoder().encode("é")] },
        },
        outputs: { y: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(5, 6) } },
      },
      { inputs: { x: { datatype: "FP32", shape: [0, 2], data: new Float32Array() } }, outputs: {} },
    ]);
  });
});

describe("JSON lines", () => {
  it.each([
    ["invalid JSON", "not JSON", /\bJSON\b/],
    ["an empty sample", { inputs: [] }, /line 1: inputs/],
    [
      "an unknown tensor",
      { inputs: [{ name: "z", shape: [1], data: [1] }] },
      /"z"; .*\bx, ids, text\b/,
    ],
    [
      "too few elements",
      { inputs: [{ name: "x", shape: [2, 2], data: [1] }] },
      /"x" has 1 elements.* 4\b/,
    ],
    [
      "a negative size",
      { inputs: [{ name: "x", shape: [-1], data: [1] }] },
      /line 1: inputs\.0\.shape\.0/,
    ],
    ["a fractional integer", { inputs: [{ name: "ids", shape: [1], data: [1.5] }] }, /1\.5/],
    ["no samples", "", /\bempty\b/],
  ])("are rejected with %s", async (_, line, detail) => {
    await expect(
      readTensorSamples(await writeSampleLines(line), tensorSpecs),
    ).rejects.toMatchObject({
      code: "invalid_tensor_samples",
      detail: expect.stringMatching(detail),
    });
  });
});

describe("a folder of ONNX test data", () => {
  it("has one sample per subfolder, in numeric order, with tensors named by position or name", async () => {
    for (const [setName, value] of [
      ["test_data_set_10", 10],
      ["test_data_set_2", 2],
    ] as const) {
      await mkdir(join(folder, "data", setName), { recursive: true });
      await writeFile(
        join(folder, "data", setName, "input_0.pb"),
        toBinary(TensorProtoSchema, floatTensor("", [value, 0], [1, 2])),
      );
      await writeFile(
        join(folder, "data", setName, "input_1.pb"),
        toBinary(TensorProtoSchema, int64Tensor("ids", [value])),
      );
      await writeFile(
        join(folder, "data", setName, "output_0.pb"),
        toBinary(TensorProtoSchema, floatTensor("y", [value, 1], [1, 2])),
      );
    }
    const samples = await readTensorSamples(join(folder, "data"), tensorSpecs);
    expect(
      samples.map(({ inputs, outputs }) => ({
        names: Object.keys(inputs),
        x: inputs["x"]?.data[0],
        y: outputs["y"]?.data[1],
      })),
    ).toEqual([
      { names: ["x", "ids"], x: 2, y: 1 },
      { names: ["x", "ids"], x: 10, y: 1 },
    ]);
    expect(await readTensorSamples(join(folder, "data"), tensorSpecs, 1)).toHaveLength(1);
  });

  it("is rejected without samples, or with an invalid file", async () => {
    await mkdir(join(folder, "empty"));
    await expect(readTensorSamples(join(folder, "empty"), tensorSpecs)).rejects.toMatchObject({
      code: "invalid_tensor_samples",
      detail: expect.stringContaining("empty"),
    });
    await expect(readTensorSamples(join(folder, "nowhere"), tensorSpecs)).rejects.toMatchObject({
      code: "invalid_tensor_samples",
    });
    await writeFile(join(folder, "empty", "input_0.pb"), "no tensor");
    await expect(readTensorSamples(join(folder, "empty"), tensorSpecs)).rejects.toMatchObject({
      code: "invalid_tensor_samples",
    });
  });
});
