// Tests the import of ONNX models as model projects: inferences, changes, and rejections with all
// problems. One file holds all cases, because they share the edge's engine; it exceeds 300 lines.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENGINE_FOLDER } from "../../../src/cli/local/paths.ts";
import { prepareEngine } from "../../../src/toolchain/engine/prepare-engine.ts";
import { createWorkerdRunner } from "../../../src/toolchain/evaluate/harness/workerd-runner.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import type { Runner } from "../../../src/toolchain/evaluate/runner.ts";
import { inferTask, type TaskOptions } from "../../../src/toolchain/import/adapt-to-task.ts";
import {
  importModel,
  type ImportResult,
  type PlaceChoice,
} from "../../../src/toolchain/import/import-model.ts";
import { createImportSamples } from "../../../src/toolchain/import/import-samples.ts";
import { type Model, parseModel } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { StringStringEntryProtoSchema } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { tinyTokenizer } from "../../fixtures/tiny-tokenizer.ts";
import {
  subgraphAttribute,
  floatTensor,
  graph,
  makeValueInfo,
  int64Tensor,
  intListAttribute,
  model,
  node,
} from "../onnx/model-builders.ts";

const region = createNodeRunner();
let edge: Runner;
beforeAll(async () => {
  const { sha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
  edge = await createWorkerdRunner({ engineFolder: ENGINE_FOLDER, engineSha256: sha256 });
}, 60_000);
afterAll(async () => await edge.close());

const MiB = 1024 * 1024;

async function runImport(
  model: Model,
  task: TaskOptions,
  { place = "auto", budget = 80 * MiB }: { place?: PlaceChoice; budget?: number } = {},
): Promise<ImportResult> {
  return await importModel(
    {
      model,
      file: "given.onnx",
      sha256: "0".repeat(64),
      name: "given",
      task,
      place,
      deadlineMs: 500,
    },
    {
      region,
      openEdge: async () => edge,
      sessionBudgetBytes: budget,
      loadSamples: createImportSamples(undefined).load,
    },
  );
}

const graphOf = ({ files }: ImportResult): Model =>
  parseModel(files.get("artifacts/model.onnx") ?? new Uint8Array());
const operatorsOf = (imported: ImportResult) =>
  graphOf(imported).graph.node.map(({ opType }) => opType);
const describeSpecs = (
  specs: readonly { name: string; datatype: string; shape: readonly number[] }[] | undefined,
) => specs?.map(({ name, datatype, shape }) => `${name} ${datatype} [${shape.join(", ")}]`);

const sumModel = () =>
  model({
    inputs: ["a: float [N, 3]", "b: float [N, 3]"],
    outputs: ["y: float [N, 3]"],
    nodes: [node("Add a b -> y")],
  });

describe("a tensor model", () => {
  it("is imported unchanged, for the edge if it can serve the model", async () => {
    const imported = await runImport(sumModel(), { task: "tensor" });
    expect(imported.project).toMatchObject({
      model: "given",
      task: "tensor",
      deadlineMs: 500,
      tiers: [{ id: "edge-fp32", place: "edge", precision: "fp32", graph: "artifacts/model.onnx" }],
      provenance: {
        source: { name: "given.onnx", sha256: "0".repeat(64) },
        operators: { "ai.onnx": 20 },
      },
    });
    const [tier] = imported.project.tiers;
    expect({ inputs: describeSpecs(tier?.inputs), outputs: describeSpecs(tier?.outputs) }).toEqual({
      inputs: ["a FP32 [-1, 3]", "b FP32 [-1, 3]"],
      outputs: ["y FP32 [-1, 3]"],
    });
    expect(imported).toMatchObject({ notes: [], missing: [], notAtTheEdge: null });
    expect(imported.sampleOutputs).toHaveLength(12);
  });
});

describe("the place of a model", () => {
  it("is a region on request, or if the edge cannot serve texts or large sessions", async () => {
    expect(
      (await runImport(sumModel(), { task: "tensor" }, { place: "region" })).project.tiers,
    ).toMatchObject([{ id: "region-fp32", place: "region" }]);
    const texts = await runImport(
      model({
        inputs: ["x: string [N]"],
        outputs: ["y: string [N]"],
        nodes: [node("Identity x -> y")],
      }),
      { task: "tensor" },
    );
    expect(texts.project.tiers[0]?.place).toBe("region");
    expect(texts.notAtTheEdge).toMatch(/^x\b/);
    const large = await runImport(sumModel(), { task: "tensor" }, { budget: MiB });
    expect(large.project.tiers[0]?.place).toBe("region");
    expect(large.notAtTheEdge).toMatch(/\d+ bytes.* 1048576$/);
    await expect(
      runImport(sumModel(), { task: "tensor" }, { budget: 10, place: "edge" }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/\bedge\b.*\d+ bytes.* 10\b/),
      remedy: expect.stringContaining("--place region"),
    });
  });
});

describe("the format of a model", () => {
  it("is lowered to the newest version that ONNX Runtime accepts", async () => {
    const imported = await runImport(
      Object.assign(sumModel(), { irVersion: 99n }),
      { task: "tensor" },
      { place: "region" },
    );
    expect({ irVersion: graphOf(imported).irVersion, notes: imported.notes }).toEqual({
      irVersion: 13n,
      notes: [expect.stringMatching(/\b99\b.*\b13\b/)],
    });
  });
});

describe("the weights of a model", () => {
  it("are checked for non-finite values, and their operators determine the precision", async () => {
    const imported = await runImport(
      model({
        inputs: ["x: float [N, 2]"],
        outputs: ["y: float [N, 2]"],
        constants: [floatTensor("w", [Number.NaN, Number.NEGATIVE_INFINITY])],
        nodes: [node("Add x w -> y")],
      }),
      { task: "tensor" },
    );
    expect(imported.notes).toEqual([
      expect.stringMatching(/^"w" .*\b1 NaN/),
      expect.stringMatching(/^"w" .*\b1 infinite/),
    ]);
    const int8 = parseModel(
      await readFile(join(import.meta.dirname, "../../../models/intent/artifacts/edge.onnx")),
    );
    expect((await runImport(int8, { task: "tensor" })).project.tiers[0]?.id).toBe("edge-int8");
  });
});

describe("a model that cannot be imported", () => {
  it("is rejected for an excessive input size before a runtime opens it", async () => {
    const constantOfShape = (size: number) =>
      model({
        inputs: [`n: int64 [${size}]`],
        outputs: ["y: float []"],
        nodes: [node("ConstantOfShape n -> y")],
      });
    await expect(
      runImport(constantOfShape(2 ** 31 - 1), { task: "tensor" }, { place: "region" }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/"n" .*\b2147483647\b/),
    });
  });

  it("is rejected with all unknown operators, including those in bodies", async () => {
    const inner = graph({ outputs: ["s"], nodes: [node("Mystery x -> s", [], "com.example")] });
    const strange = model({
      opset: 13,
      inputs: ["x: float [1]", "c: bool []"],
      outputs: ["y"],
      domains: ["com.example"],
      nodes: [
        node("If c -> a", [
          subgraphAttribute("then_branch", inner),
          subgraphAttribute("else_branch", inner),
        ]),
        node("Gelu a -> b"),
        node("Other b -> y", [], "com.unnamed"),
      ],
    });
    await expect(runImport(strange, { task: "tensor" })).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(
        /^given\.onnx .*\bGelu \(1 node\).* 13 .*\bcom\.unnamed\.Other \(1 node\).*\bcom\.example\.Mystery \(2 nodes\)/,
      ),
    });
  });
});

describe("a model that cannot be imported", () => {
  it("is rejected with ONNX Runtime's reason if that rejects it", async () => {
    await expect(
      runImport(
        model({
          inputs: ["x: float [2]"],
          outputs: ["y: float [2]"],
          constants: [floatTensor("w", [1, 2, 3])],
          nodes: [node("Add x w -> y")],
        }),
        { task: "tensor" },
      ),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/\bAdd\b/),
    });
    const future = model({
      opset: 99,
      inputs: ["x: float [2]"],
      outputs: ["y: float [2]"],
      nodes: [node("Relu x -> y")],
    });
    await expect(runImport(future, { task: "tensor" })).rejects.toMatchObject({
      detail: expect.stringMatching(/^given\.onnx [^/]*\*guarantees\* support/),
    });
    const shapeless = model({
      inputs: ["x"],
      outputs: ["y"],
      nodes: [node("Relu x -> y")],
      opset: 17,
    });
    await expect(runImport(shapeless, { task: "tensor" })).rejects.toMatchObject({
      code: "not_importable",
    });
  });
});

describe("a model that cannot be imported", () => {
  it("is rejected without inputs, or if it fails on the trial inputs", async () => {
    await expect(
      runImport(
        model({
          inputs: [],
          outputs: ["y: float [1]"],
          constants: [floatTensor("w", [1])],
          nodes: [node("Neg w -> y")],
        }),
        { task: "tensor" },
      ),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringContaining("no inputs"),
    });
    const picky = model({
      inputs: ["x: float [N, M]"],
      outputs: ["y: float [5, 7]"],
      constants: [int64Tensor("shape", [5, 7])],
      nodes: [node("Reshape x shape -> y")],
    });
    await expect(runImport(picky, { task: "tensor" })).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/\bfails\b/),
      remedy: expect.stringContaining("--samples"),
    });
    const huge = model({
      inputs: ["x: float [N, 3, 100000, 100000]"],
      outputs: ["y: float [N, 3, 100000, 100000]"],
      nodes: [node("Relu x -> y")],
    });
    await expect(runImport(huge, { task: "tensor" })).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/\bgenerated\b/),
      remedy: expect.stringContaining("--samples"),
    });
  });
});

const imageLabels = ["a", "b", "c"];
const normalization = { mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2], fit: "stretch" } as const;
const classifier = (input: string, ...nodes: ReturnType<typeof node>[]) =>
  model({
    opset: 17,
    inputs: [input],
    outputs: ["probabilities: float [N, 3]"],
    constants: [
      floatTensor(
        "w",
        Array.from({ length: 9 }, (_, index) => index / 9),
        [3, 3],
      ),
    ],
    nodes: [
      ...nodes,
      node("ReduceMean h -> mean", [
        intListAttribute("axes", [2, 3]),
        makeIntAttribute("keepdims", 0),
      ]),
      node("MatMul mean w -> scores"),
      node("Softmax scores -> probabilities", [makeIntAttribute("axis", -1)]),
    ],
  });

describe("an image classifier", () => {
  it("gets standard names for input and logits, and loses its final Softmax", async () => {
    const imported = await runImport(
      classifier("data: float [N, 3, 8, 6]", node("Relu data -> h")),
      {
        task: "image-classification",
        labels: imageLabels,
        image: normalization,
      },
    );
    expect(imported.project).toMatchObject({
      task: "image-classification",
      labels: "artifacts/labels.json",
      tiers: [
        {
          place: "edge",
          preprocessor: {
            kind: "image",
            width: 6,
            height: 8,
            mean: normalization.mean,
            std: normalization.std,
            fit: "stretch",
          },
          calibration: { temperature: 1 },
          exit: null,
        },
      ],
    });
    const [tier] = imported.project.tiers;
    expect({
      inputs: describeSpecs(tier?.inputs),
      outputs: describeSpecs(tier?.outputs),
      operators: operatorsOf(imported),
    }).toEqual({
      inputs: ["pixels FP32 [-1, 3, 8, 6]"],
      outputs: ["logits FP32 [-1, 3]"],
      operators: ["Relu", "ReduceMean", "MatMul"],
    });
    expect(imported.notes).toEqual([
      expect.stringMatching(/\bSoftmax\b.*"probabilities"/),
      expect.stringMatching(/"scores".*"logits"/),
      expect.stringMatching(/"data".*"pixels"/),
    ]);
    expect(imported.missing).toHaveLength(3);
  });
});

describe("an image classifier", () => {
  it("is adapted from channels-last input and a fixed batch", async () => {
    const channelsLast = classifier(
      "data: float [1, 8, 6, 3]",
      node("Transpose data -> h", [intListAttribute("perm", [0, 3, 1, 2])]),
    );
    const imported = await runImport(channelsLast, {
      task: "image-classification",
      labels: imageLabels,
      image: normalization,
    });
    expect({
      inputs: describeSpecs(imported.project.tiers[0]?.inputs),
      operators: operatorsOf(imported).slice(0, 2),
    }).toEqual({
      inputs: ["pixels FP32 [-1, 3, 8, 6]"],
      operators: ["Transpose", "Transpose"],
    });
    expect(imported.notes).toContainEqual(expect.stringContaining("batch"));
  });
});

describe("an image classifier", () => {
  it("is rejected if it works only with a batch of one", async () => {
    const fixed = model({
      inputs: ["data: float [1, 3, 4, 4]"],
      outputs: ["logits: float [1, 3]"],
      constants: [
        floatTensor(
          "w",
          Array.from({ length: 144 }, () => 0.1),
          [48, 3],
        ),
        int64Tensor("flat", [1, 48]),
      ],
      nodes: [node("Reshape data flat -> h"), node("MatMul h w -> logits")],
    });
    await expect(
      runImport(fixed, {
        task: "image-classification",
        labels: imageLabels,
        image: normalization,
      }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringContaining("batch"),
      remedy: expect.stringContaining("dynamic_axes"),
    });
  });

  it("takes labels from the metadata, and the image size from the options", async () => {
    const anySize = classifier("pixels: float [N, 3, H, W]", node("Relu pixels -> h"));
    anySize.metadataProps = [
      create(StringStringEntryProtoSchema, { key: "names", value: "{0: 'a', 1: 'b', 2: 'c'}" }),
    ];
    const imported = await runImport(anySize, {
      task: "image-classification",
      image: { ...normalization, size: { width: 32, height: 16 } },
    });
    expect(imported.notes).toContainEqual(expect.stringMatching(/^3 labels .*"a"/));
    expect(new TextDecoder().decode(imported.files.get("artifacts/labels.json"))).toBe(
      '["a","b","c"]\n',
    );
    expect(imported.project.tiers[0]).toMatchObject({ preprocessor: { width: 32, height: 16 } });
  });
});

describe("an image classifier", () => {
  it("may list weights among its inputs, as old exporters do", async () => {
    const oldExport = classifier("data: float [N, 3, 8, 6]", node("Relu data -> h"));
    oldExport.graph.input.push(makeValueInfo("w: float [3, 3]"));
    expect(inferTask(oldExport)).toBe("image-classification");
    const imported = await runImport(
      oldExport,
      { task: "image-classification", labels: imageLabels, image: normalization },
      { place: "region" },
    );
    expect(imported.notes[0]).toMatch(/^1 .*\bweights\b/);
  });

  it("is rejected with all missing information", async () => {
    await expect(
      runImport(classifier("pixels: float [N, 3, H, W]", node("Relu pixels -> h")), {
        task: "image-classification",
      }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/labels.*size.*normalization/),
      remedy: expect.stringMatching(/--labels.*--size.*--mean/),
    });
  });
});

describe("an image classifier", () => {
  it.each([
    ["data: float [N, 5, 8, 6]", /"data" is \[\?, 5, 8, 6\]/],
    ["data: float [N, 3, 8]", /"data".* four dimensions/],
    ["data: uint8 [N, 3, 8, 6]", /"data" .*FP32/],
  ])("is rejected with the input %s", async (input, detail) => {
    await expect(
      runImport(classifier(input, node("Relu data -> h")), {
        task: "image-classification",
        labels: imageLabels,
        image: normalization,
      }),
    ).rejects.toMatchObject({ code: "not_importable", detail: expect.stringMatching(detail) });
  });

  it("is rejected if the numbers of labels and logits differ", async () => {
    await expect(
      runImport(classifier("data: float [N, 3, 8, 6]", node("Relu data -> h")), {
        task: "image-classification",
        labels: ["a", "b"],
        image: normalization,
      }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/\b3 logits\b.*\b2 labels\b/),
    });
  });
});

const textLabels = ["yes", "no"];
const text = {
  kind: "wordpiece",
  artifact: new TextEncoder().encode(JSON.stringify(tinyTokenizer)),
  maxTokens: 16,
} as const;
const encoder = (type: string, ...extraInputs: string[]) =>
  model({
    opset: 17,
    inputs: [
      `input_ids: ${type} [N, L]`,
      `attention_mask: ${type} [N, L]`,
      ...extraInputs.map((name) => `${name}: ${type} [N, L]`),
    ],
    outputs: ["scores: float [N, 2]", "hidden: float [N, 1]"],
    constants: [floatTensor("w", [0.1, -0.2], [1, 2])],
    nodes: [
      node("Add input_ids attention_mask -> s_0"),
      ...extraInputs.map((name, index) => node(`Add s_${index} ${name} -> s_${index + 1}`)),
      node(`Cast s_${extraInputs.length} -> real`, [makeIntAttribute("to", 1)]),
      node("ReduceMean real -> hidden", [intListAttribute("axes", [1])]),
      node("MatMul hidden w -> scores"),
    ],
  });

describe("a text classifier", () => {
  it("gets zeros as segment ids, and a Cast for 32-bit ids", async () => {
    const imported = await runImport(encoder("int32", "token_type_ids"), {
      task: "text-classification",
      labels: textLabels,
      text,
      logitsOutput: "scores",
    });
    expect(describeSpecs(imported.project.tiers[0]?.inputs)).toEqual([
      "input_ids INT64 [-1, -1]",
      "attention_mask INT64 [-1, -1]",
    ]);
    expect(imported.project).toMatchObject({
      task: "text-classification",
      tiers: [
        {
          preprocessor: { kind: "wordpiece", artifact: "artifacts/tokenizer.json", maxTokens: 16 },
        },
      ],
    });
    expect(imported.notes).toEqual([
      expect.stringMatching(/"scores".*"logits"/),
      expect.stringContaining('"token_type_ids"'),
      expect.stringMatching(/"input_ids".*INT64.*INT32/),
      expect.stringMatching(/"attention_mask".*INT64.*INT32/),
    ]);
    const [answer] = imported.sampleOutputs;
    expect(answer?.["logits"]?.shape).toEqual([1, 2]);
  });

  it("is rejected with ambiguous logits, other inputs or without a tokenizer", async () => {
    await expect(
      runImport(encoder("int64", "position"), {
        task: "text-classification",
        labels: textLabels,
        text,
      }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(
        /: scores, hidden; .*"input_ids", "attention_mask", "position".*\bwordpiece\b.*\binput_ids and attention_mask/,
      ),
      remedy: expect.stringMatching(/--logits.*--task tensor/),
    });
    await expect(
      runImport(encoder("int64"), {
        task: "text-classification",
        labels: textLabels,
        logitsOutput: "nothing",
      }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/"nothing" .*scores, hidden/),
      remedy: expect.stringMatching(/--logits.*--tokenizer/),
    });
  });
});

it("infers a task from inputs and outputs", () => {
  const inferFrom = (inputs: string[], output: string) =>
    inferTask(model({ inputs, outputs: [output], nodes: [] }));
  expect(
    inferFrom(["input_ids: int64 [N, L]", "attention_mask: int64 [N, L]"], "y: float [N, 2]"),
  ).toBe("text-classification");
  expect(inferFrom(["x: float [N, 3, 32, 32]"], "y: float [N, 10]")).toBe("image-classification");
  expect(inferFrom(["x: float [N, 32, 32, 3]"], "y: float [N, 10]")).toBe("image-classification");
  expect(inferFrom(["x: float [N, 3, 32, 32]"], "y: float [N, 3, 32, 32]")).toBe("tensor");
  expect(inferFrom(["x: float [N, 4]"], "y: float [N, 10]")).toBe("tensor");
});
