// Tests `edgetier model import`: the projects that it writes, and its errors.
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { byteView } from "../../src/core/bytes.ts";
import { serializeModel } from "../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../src/toolchain/onnx/nodes.ts";
import { TensorProtoSchema } from "../../src/toolchain/onnx/proto/onnx_pb.js";
import { readProject } from "../../src/toolchain/project.ts";
import images from "../fixtures/images.json" with { type: "json" };
import { tinyTokenizer } from "../fixtures/tiny-tokenizer.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { floatTensor, intListAttribute, model, node } from "../toolchain/onnx/model-builders.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-import-"));
  const external = create(TensorProtoSchema, {
    name: "w",
    dataType: 1,
    dims: [2n],
    dataLocation: 1,
    externalData: [{ key: "location", value: "weights.bin" }],
  });
  await writeFile(at("weights.bin"), byteView(Float32Array.of(2, 3)));
  await writeFile(
    at("My Sum (v2).onnx"),
    serializeModel(
      model({
        inputs: ["x: float [N, 2]"],
        outputs: ["y: float [N, 2]"],
        constants: [external],
        nodes: [node("Add x w -> y")],
      }),
    ),
  );
  // Label "good" where the mean id is below 4.5.
  const nodes = [
    node("Mul input_ids attention_mask -> ids"),
    node("Cast ids -> real", [makeIntAttribute("to", 1)]),
    node("ReduceMax real -> mean", [intListAttribute("axes", [1])]),
    node("Sub mean middle -> above"),
    node("MatMul above w -> scores"),
  ];
  await writeFile(
    at("moods.onnx"),
    serializeModel(
      model({
        opset: 17,
        inputs: ["input_ids: int64 [N, L]", "attention_mask: int64 [N, L]"],
        outputs: ["scores: float [N, 2]"],
        constants: [floatTensor("middle", [4.5], []), floatTensor("w", [-1, 1], [1, 2])],
        nodes,
      }),
    ),
  );
  await writeFile(at("tokenizer.json"), JSON.stringify(tinyTokenizer));
  await writeFile(at("labels.txt"), "good\nbad\n");
  await writeFile(
    at("moods.jsonl"),
    [
      { text: "good good", label: "good" },
      { text: "bad", label: "bad" },
      { text: "good bad", label: "good" },
    ]
      .map((one) => JSON.stringify(one))
      .join("\n"),
  );
});
afterAll(async () => await rm(folder, { recursive: true }));
const at = (name: string) => join(folder, name);

describe("edgetier model import", () => {
  it(
    "creates a tensor project from a file alone, with its external data",
    { timeout: 60_000 },
    async () => {
      const { code, stdout, stderr } = await runEdgetier([
        "model",
        "import",
        at("My Sum (v2).onnx"),
        "--out",
        at("sum"),
      ]);
      expect({ code, stderr }).toEqual({
        code: 0,
        stderr: expect.stringMatching(/^Next: [^\n]*\n$/),
      });
      expect(stdout).toMatch(/^model +my-sum-v2$/m);
      expect(stdout).toMatch(/^tier +edge-fp32 at the edge, /m);
      expect(stdout).toMatch(/^inputs +x FP32 \[\?, 2\]$/m);
      expect(stdout).toMatch(/ weights\.bin$/m);
      const { project, files } = await readProject(at("sum"));
      expect({ task: project.task, files: [...files.keys()] }).toEqual({
        task: "tensor",
        files: ["artifacts/model.onnx"],
      });
      expect(await readFile(at("sum/model.json"), "utf8")).not.toContain(folder);
    },
  );
});

describe("edgetier model import of a classifier", () => {
  it("creates a text classification project and tries it on samples", async () => {
    const args = [
      "model",
      "import",
      at("moods.onnx"),
      "--out",
      at("moods"),
      "--tokenizer",
      at("tokenizer.json"),
      "--labels",
      at("labels.txt"),
      "--samples",
      at("moods.jsonl"),
      "--max-tokens",
      "8",
      "--place",
      "region",
    ];
    const { code, stdout } = await runEdgetier([...args, "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      folder: at("moods"),
      project: {
        model: "moods",
        task: "text-classification",
        tiers: [
          {
            id: "region-fp32",
            preprocessor: { kind: "wordpiece", maxTokens: 8 },
            calibration: { temperature: 1 },
          },
        ],
      },
      tried: { samples: 3, madeUp: false, right: 2 },
    });
    expect((await readProject(at("moods"))).files.size).toBe(3);
  });
});

describe("edgetier model import of an image classifier", () => {
  it("creates an image classification project and tries it on image files", async () => {
    const nodes = [
      node("GlobalAveragePool data -> pooled"),
      node("Flatten pooled -> flat"),
      node("Gemm flat w b -> scores"),
      node("Softmax scores -> probabilities"),
    ];
    await writeFile(
      at("images.onnx"),
      serializeModel(
        model({
          inputs: ["data: float [1, 3, 16, 16]"],
          outputs: ["probabilities: float [1, 2]"],
          constants: [floatTensor("w", [0, 0, 0, 0, 0, 0], [3, 2]), floatTensor("b", [1, 0])],
          nodes,
        }),
      ),
    );
    for (const label of ["first", "second"]) {
      await mkdir(at(`images/${label}`), { recursive: true });
      await writeFile(at(`images/${label}/one.jpg`), Buffer.from(images.taken.jpeg.file, "base64"));
    }
    await writeFile(at("two.json"), '["first", "second"]');
    const args = [
      "model",
      "import",
      at("images.onnx"),
      "--out",
      at("images-model"),
      "--labels",
      at("two.json"),
      "--mean",
      "0.5,0.5,0.5",
      "--std",
      "0.25,0.25,0.25",
      "--samples",
      at("images"),
      "--place",
      "region",
      "--json",
    ];
    const { code, stdout } = await runEdgetier(args);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      project: {
        task: "image-classification",
        tiers: [
          {
            inputs: [{ name: "pixels", shape: [-1, 3, 16, 16] }],
            outputs: [{ name: "logits", shape: [-1, 2] }],
          },
        ],
      },
      tried: { samples: 2, right: 1 },
    });
    expect((await readProject(at("images-model"))).project.task).toBe("image-classification");
  });
});

describe("errors of edgetier model import", () => {
  it("overwrites a project only with --replace", async () => {
    const args = [
      "model",
      "import",
      at("My Sum (v2).onnx"),
      "--out",
      at("twice"),
      "--place",
      "region",
    ];
    expect((await runEdgetier(args)).code).toBe(0);
    expect(await runFailingEdgetier(args)).toMatchObject({ exitCode: 1, code: "project_exists" });
    expect((await runEdgetier([...args, "--replace"])).code).toBe(0);
  });

  it("names every missing option and writes no file", async () => {
    expect(
      await runFailingEdgetier(["model", "import", at("moods.onnx"), "--out", at("nothing")]),
    ).toMatchObject({
      exitCode: 1,
      stdout: "",
      code: "not_importable",
      remedy: expect.stringMatching(/--labels.*--tokenizer/s),
    });
    await expect(readFile(at("nothing/model.json"))).rejects.toMatchObject({ code: "ENOENT" });
  });

  it.each([
    [["missing.onnx"], 1, "model_file_unreadable", "missing.onnx"],
    [["moods.onnx", "--task", "translation"], 2, "usage", "--task"],
    [["moods.onnx", "--name", "Not a name"], 2, "usage", "--name"],
    [["moods.onnx", "--mean", "1,2"], 2, "usage", "--mean"],
    [["moods.onnx", "--deadline-ms", "soon"], 2, "usage", "--deadline-ms"],
    [
      ["moods.onnx", "--task", "tensor", "--samples", "moods.jsonl"],
      1,
      "invalid_tensor_samples",
      "moods.jsonl",
    ],
  ])("rejects %j with exit code %i and %s", async (args, exitCode, code, value) => {
    await mkdir(at("unused"), { recursive: true });
    expect(
      await runFailingEdgetier([
        "model",
        "import",
        ...args.map((arg) => (/\.(onnx|jsonl|txt|json)$/.test(arg) ? at(arg) : arg)),
        "--out",
        at("unused"),
      ]),
    ).toMatchObject({ exitCode, stdout: "", code, detail: expect.stringContaining(value) });
  });
});
