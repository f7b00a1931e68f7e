// Samples of tensors, as lines of JSON and as ONNX's own test data.
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

describe("lines of JSON", () => {
  it("have tensors flat or nested, of all kinds", async () => {
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

  it.each([
    ["not JSON", "JSON"],
    [{ inputs: [] }, "line 1: inputs"],
    [
      { inputs: [{ name: "z", shape: [1], data: [1] }] },
      'the model has no "z"; it has x, ids, text',
    ],
    [
      { inputs: [{ name: "x", shape: [2, 2], data: [1] }] },
      '"x" has 1 elements, and its shape has 4',
    ],
    [{ inputs: [{ name: "x", shape: [-1], data: [1] }] }, "line 1: inputs.0.shape.0"],
    [{ inputs: [{ name: "ids", shape: [1], data: [1.5] }] }, "1.5"],
    ["", "it has none"],
  ])("are refused with the reason: %j", async (line, reason) => {
    await expect(
      readTensorSamples(await writeSampleLines(line), tensorSpecs),
    ).rejects.toMatchObject({
      code: "invalid_tensor_samples",
      detail: expect.stringContaining(reason),
    });
  });
});

describe("a folder of ONNX's test data", () => {
  it("has a sample in each folder, in the order of their numbers, named by position or by name", async () => {
    for (const [set, value] of [
      ["test_data_set_10", 10],
      ["test_data_set_2", 2],
    ] as const) {
      await mkdir(join(folder, "data", set), { recursive: true });
      await writeFile(
        join(folder, "data", set, "input_0.pb"),
        toBinary(TensorProtoSchema, floatTensor("", [value, 0], [1, 2])),
      );
      await writeFile(
        join(folder, "data", set, "input_1.pb"),
        toBinary(TensorProtoSchema, int64Tensor("ids", [value])),
      );
      await writeFile(
        join(folder, "data", set, "output_0.pb"),
        toBinary(TensorProtoSchema, floatTensor("y", [value, 1], [1, 2])),
      );
    }
    const samples = await readTensorSamples(join(folder, "data"), tensorSpecs);
    expect(
      samples.map(({ inputs, outputs }) => [
        Object.keys(inputs),
        inputs["x"]?.data[0],
        outputs["y"]?.data[1],
      ]),
    ).toEqual([
      [["x", "ids"], 2, 1],
      [["x", "ids"], 10, 1],
    ]);
    expect(await readTensorSamples(join(folder, "data"), tensorSpecs, 1)).toHaveLength(1);
  });

  it("is refused where it has none, or a file is none", async () => {
    await mkdir(join(folder, "empty"));
    await expect(readTensorSamples(join(folder, "empty"), tensorSpecs)).rejects.toMatchObject({
      detail: expect.stringContaining("it has none"),
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
