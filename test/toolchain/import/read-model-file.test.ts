// Data that a model keeps in other files: brought in where it plainly belongs to the model, refused with the reason elsewhere.
import { link, mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readModelFile } from "../../../src/toolchain/import/read-model-file.ts";
import { parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { type TensorProto, TensorProtoSchema } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { readFloats } from "../../../src/toolchain/onnx/tensor-data.ts";
import { byteView } from "../../../src/core/bytes.ts";
import { subgraphAttribute, graph, model, node } from "../onnx/model-builders.ts";

let root: string;
let folder: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "edgetier-external-"));
  folder = join(root, "model");
  await mkdir(folder);
  await writeFloats("weights.bin", 9, 9, 1, 2, 3);
});
afterEach(async () => await rm(root, { recursive: true }));

/** Numbers into a file that is named as from the model's folder. */
async function writeFloats(name: string, ...numbers: number[]): Promise<void> {
  await mkdir(dirname(join(folder, name)), { recursive: true });
  await writeFile(join(folder, name), byteView(Float32Array.from(numbers)));
}

const externalTensor = (entries: Readonly<Record<string, string>>, name = "w"): TensorProto =>
  create(TensorProtoSchema, {
    name,
    dataType: 1,
    dims: [3n],
    dataLocation: 1,
    externalData: Object.entries(entries).map(([key, value]) => ({ key, value })),
  });

async function readModelWith(...tensors: TensorProto[]) {
  const path = join(folder, "model.onnx");
  await writeFile(
    path,
    serializeModel(
      model({
        inputs: ["x: float [3]"],
        outputs: ["y"],
        nodes: [node("Add x w -> y")],
        constants: tensors,
      }),
    ),
  );
  return await readModelFile(path);
}

describe("brings in", () => {
  it("the tensor's part of the file, so that the model stands alone", async () => {
    const { model, dataFiles } = await readModelWith(
      externalTensor({ location: "weights.bin", offset: "8", length: "12" }),
      externalTensor({ location: "weights.bin" }, "v"),
    );
    const alone = parseModel(serializeModel(model));
    expect(
      alone.graph.initializer.map((tensor) => [
        tensor.name,
        [...readFloats(tensor)],
        tensor.externalData.length,
      ]),
    ).toEqual([
      ["w", [1, 2, 3], 0],
      ["v", [9, 9, 1], 0],
    ]);
    expect(dataFiles).toEqual(["weights.bin"]);
  });

  it("what lies in a folder of the model's, for a body's tensor too", async () => {
    await writeFloats("data/more.bin", 4, 5, 6);
    const inner = graph({
      outputs: ["s"],
      nodes: [node("Add x w -> s")],
      constants: [externalTensor({ location: "data/more.bin" })],
    });
    const path = join(folder, "model.onnx");
    await writeFile(
      path,
      serializeModel(
        model({
          inputs: ["x: float [3]", "c: bool []"],
          outputs: ["y"],
          nodes: [
            node("If c -> y", [
              subgraphAttribute("then_branch", inner),
              subgraphAttribute(
                "else_branch",
                graph({ outputs: ["t"], nodes: [node("Neg x -> t")] }),
              ),
            ]),
          ],
        }),
      ),
    );
    const { model: found } = await readModelFile(path);
    expect(
      found.graph.node[0]?.attribute[0]?.g?.initializer.map((tensor) => [...readFloats(tensor)]),
    ).toEqual([[4, 5, 6]]);
  });
});

describe("refuses", () => {
  it.each([
    ["a name above the folder", { location: "../outside.bin" }, "leaves the model's folder"],
    ["a way up and down again", { location: "data/../weights.bin" }, "leaves the model's folder"],
    ["an absolute path", { location: "/etc/hostname" }, "is an absolute path"],
    ["a drive", { location: "C:weights.bin" }, "is an absolute path"],
    ["backslashes", { location: "..\\outside.bin" }, "characters that no file's name should have"],
    ["NUL", { location: "weights.bin\0.txt" }, "characters that no file's name should have"],
    ["no name", {}, "is no name"],
    ["the folder itself", { location: "." }, "is no file"],
    ["a file that is not there", { location: "other.bin" }, "is not there"],
    ["a negative offset", { location: "weights.bin", offset: "-4" }, "not a whole number from 0"],
    ["an offset of text", { location: "weights.bin", offset: "0x8" }, "not a whole number from 0"],
    [
      "an offset beyond the end",
      { location: "weights.bin", offset: "12" },
      "has 20 bytes, and 12 to 24 are asked for",
    ],
    [
      "an offset that overflows",
      { location: "weights.bin", offset: "99999999999999999999" },
      "not a whole number from 0",
    ],
    [
      "a length that is not the tensor's",
      { location: "weights.bin", length: "8" },
      "gives 8 bytes to a tensor of 12",
    ],
  ])("%s", async (_, entries, reason) => {
    await writeFile(join(root, "outside.bin"), new Uint8Array(12));
    await mkdir(join(folder, "data"));
    await expect(readModelWith(externalTensor(entries))).rejects.toMatchObject({
      code: "external_data",
      status: 400,
      detail: expect.stringContaining(reason),
    });
  });

  it("links of all kinds", async () => {
    await writeFile(join(root, "outside.bin"), new Uint8Array(12));
    await mkdir(join(root, "elsewhere"));
    await writeFile(join(root, "elsewhere/inner.bin"), new Uint8Array(12));
    await symlink(join(root, "outside.bin"), join(folder, "symbolic.bin"));
    await symlink(join(root, "elsewhere"), join(folder, "behind"));
    await link(join(root, "outside.bin"), join(folder, "hard.bin"));
    await expect(readModelWith(externalTensor({ location: "symbolic.bin" }))).rejects.toMatchObject(
      {
        detail: expect.stringContaining("is a link"),
      },
    );
    await expect(
      readModelWith(externalTensor({ location: "behind/inner.bin" })),
    ).rejects.toMatchObject({
      detail: expect.stringContaining("is a link, or lies behind one"),
    });
    await expect(readModelWith(externalTensor({ location: "hard.bin" }))).rejects.toMatchObject({
      detail: expect.stringContaining("hard links"),
    });
  });

  it("more than a model may have, before it is read", async () => {
    await writeFloats("large.bin", 0);
    await truncate(join(folder, "large.bin"), 2_400_000_000); // takes no room
    const large = (name: string) =>
      create(TensorProtoSchema, {
        name,
        dataType: 1,
        dims: [600_000_000n],
        dataLocation: 1,
        externalData: [{ key: "location", value: "large.bin" }],
      });
    await expect(readModelWith(large("w"))).rejects.toMatchObject({
      code: "model_file_too_large",
      status: 413,
    });
  });

  it("a file that is not there, or no file", async () => {
    await expect(readModelFile(join(folder, "none.onnx"))).rejects.toMatchObject({
      code: "model_file_unreadable",
    });
    await expect(readModelFile(folder)).rejects.toMatchObject({ code: "model_file_unreadable" });
  });
});
