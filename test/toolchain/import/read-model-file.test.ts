// Tests models with data in separate files: files of the model's folder are read, all others
// rejected.
import { link, mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { byteView } from "../../../src/core/bytes.ts";
import { readModelFile } from "../../../src/toolchain/import/read-model-file.ts";
import { parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { type TensorProto, TensorProtoSchema } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { readFloats } from "../../../src/toolchain/onnx/tensor-data.ts";
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

/** Writes numbers into a file, named relative to the model's folder. */
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

describe("the data in separate files", () => {
  it("is read by offset and length, so that the model becomes self-contained", async () => {
    const { model, dataFiles } = await readModelWith(
      externalTensor({ location: "weights.bin", offset: "8", length: "12" }),
      externalTensor({ location: "weights.bin" }, "v"),
    );
    const selfContained = parseModel(serializeModel(model));
    expect(
      selfContained.graph.initializer.map((tensor) => ({
        name: tensor.name,
        values: [...readFloats(tensor)],
        externalEntries: tensor.externalData.length,
      })),
    ).toEqual([
      { name: "w", values: [1, 2, 3], externalEntries: 0 },
      { name: "v", values: [9, 9, 1], externalEntries: 0 },
    ]);
    expect(dataFiles).toEqual(["weights.bin"]);
  });

  it("is read from subfolders, also for a tensor of a body", async () => {
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
    const { model: loaded } = await readModelFile(path);
    expect(
      loaded.graph.node[0]?.attribute[0]?.g?.initializer.map((tensor) => [...readFloats(tensor)]),
    ).toEqual([[4, 5, 6]]);
  });
});

const INVALID_LOCATIONS: [string, Readonly<Record<string, string>>, RegExp][] = [
  ["a name above the folder", { location: "../outside.bin" }, /\bfolder\.$/],
  ["a way up and down again", { location: "data/../weights.bin" }, /\bfolder\.$/],
  ["an absolute path", { location: "/etc/hostname" }, /\babsolute\b/],
  ["a drive", { location: "C:weights.bin" }, /\babsolute\b/],
  ["backslashes", { location: "..\\outside.bin" }, /\bcharacters\b/],
  ["NUL", { location: "weights.bin\0.txt" }, /\bcharacters\b/],
  ["no name", {}, /\bempty\b/],
  ["the folder itself", { location: "." }, /\bregular file\b/],
  ["a missing file", { location: "other.bin" }, /\bexist\b/],
  ["a negative offset", { location: "weights.bin", offset: "-4" }, /\binteger\b/],
  ["a hexadecimal offset", { location: "weights.bin", offset: "0x8" }, /\binteger\b/],
  ["an offset beyond the end", { location: "weights.bin", offset: "12" }, / 20 bytes.* 12 to 24/],
  [
    "an offset that overflows",
    { location: "weights.bin", offset: "99999999999999999999" },
    /\binteger\b/,
  ],
  [
    "another length than the tensor's",
    { location: "weights.bin", length: "8" },
    / 8 bytes.* 12 bytes/,
  ],
];

describe("the data in separate files", () => {
  it.each(INVALID_LOCATIONS)("is rejected with %s", async (_, entries, detail) => {
    await writeFile(join(root, "outside.bin"), new Uint8Array(12));
    await mkdir(join(folder, "data"));
    await expect(readModelWith(externalTensor(entries))).rejects.toMatchObject({
      code: "external_data",
      status: 400,
      detail: expect.stringMatching(detail),
    });
  });

  it("is rejected behind symbolic and hard links", async () => {
    await writeFile(join(root, "outside.bin"), new Uint8Array(12));
    await mkdir(join(root, "elsewhere"));
    await writeFile(join(root, "elsewhere/inner.bin"), new Uint8Array(12));
    await symlink(join(root, "outside.bin"), join(folder, "symbolic.bin"));
    await symlink(join(root, "elsewhere"), join(folder, "behind"));
    await link(join(root, "outside.bin"), join(folder, "hard.bin"));
    for (const { location, detail } of [
      { location: "symbolic.bin", detail: /\bsymbolic link\b/ },
      { location: "behind/inner.bin", detail: /\blinked folder\b/ },
      { location: "hard.bin", detail: /\bhard links\b/ },
    ])
      await expect(readModelWith(externalTensor({ location }))).rejects.toMatchObject({
        code: "external_data",
        detail: expect.stringMatching(detail),
      });
  });

  it("is rejected before reading if it exceeds the model size limit", async () => {
    await writeFloats("large.bin", 0);
    // The file is sparse, so it takes no space.
    await truncate(join(folder, "large.bin"), 2_400_000_000);
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
});

describe("a model file", () => {
  it("is rejected if it does not exist, or is a folder", async () => {
    await expect(readModelFile(join(folder, "none.onnx"))).rejects.toMatchObject({
      code: "model_file_unreadable",
    });
    await expect(readModelFile(folder)).rejects.toMatchObject({ code: "model_file_unreadable" });
  });
});
