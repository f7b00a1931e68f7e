// From ONNX models to model projects: what is inferred, what is changed, and what is refused with all reasons at once.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inferTask, type TaskOptions } from "../../../src/toolchain/import/adapt-to-task.ts";
import {
  importModel,
  type ImportResult,
  type PlaceChoice,
} from "../../../src/toolchain/import/import-model.ts";
import { createImportSamples } from "../../../src/toolchain/import/import-samples.ts";
import { prepareEngine } from "../../../src/toolchain/engine/prepare-engine.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import type { Runner } from "../../../src/toolchain/evaluate/runner.ts";
import { createWorkerdRunner } from "../../../src/toolchain/evaluate/harness/workerd-runner.ts";
import { type Model, parseModel } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { StringStringEntryProtoSchema } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { ENGINE_FOLDER } from "../../../src/cli/local/paths.ts";
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
const operators = (imported: ImportResult) =>
  graphOf(imported).graph.node.map(({ opType }) => opType);
const shapes = (
  specs: readonly { name: string; datatype: string; shape: readonly number[] }[] | undefined,
) => specs?.map(({ name, datatype, shape }) => `${name} ${datatype} [${shape.join(", ")}]`);

describe("tensors in, tensors out", () => {
  const sum = () =>
    model({
      inputs: ["a: float [N, 3]", "b: float [N, 3]"],
      outputs: ["y: float [N, 3]"],
      nodes: [node("Add a b -> y")],
    });

  it("is a project as it is, at the edge if that can serve it", async () => {
    const made = await runImport(sum(), { task: "tensor" });
    expect(made.project).toMatchObject({
      model: "given",
      task: "tensor",
      deadlineMs: 500,
      tiers: [{ id: "edge-fp32", place: "edge", precision: "fp32", graph: "artifacts/model.onnx" }],
      provenance: {
        source: { name: "given.onnx", sha256: "0".repeat(64) },
        operators: { "ai.onnx": 20 },
      },
    });
    const [tier] = made.project.tiers;
    expect([shapes(tier?.inputs), shapes(tier?.outputs)]).toEqual([
      ["a FP32 [-1, 3]", "b FP32 [-1, 3]"],
      ["y FP32 [-1, 3]"],
    ]);
    expect([made.notes, made.missing, made.notAtTheEdge, made.sampleOutputs.length]).toEqual([
      [],
      [],
      null,
      12,
    ]);
  });

  it("goes to a region where it is asked for, or where the edge cannot: texts, and what is too large", async () => {
    expect(
      (await runImport(sum(), { task: "tensor" }, { place: "region" })).project.tiers,
    ).toMatchObject([{ id: "region-fp32", place: "region" }]);
    const texts = await runImport(
      model({
        inputs: ["x: string [N]"],
        outputs: ["y: string [N]"],
        nodes: [node("Identity x -> y")],
      }),
      { task: "tensor" },
    );
    expect([texts.project.tiers[0]?.place, texts.notAtTheEdge]).toEqual([
      "region",
      "x is text, and the edge runs numbers only",
    ]);
    const large = await runImport(sum(), { task: "tensor" }, { budget: MiB });
    expect([large.project.tiers[0]?.place, large.notAtTheEdge]).toEqual([
      "region",
      expect.stringMatching(
        /^its session takes \d+ bytes, and all sessions of an isolate together have 1048576$/,
      ),
    ]);
    await expect(
      runImport(sum(), { task: "tensor" }, { budget: 10, place: "edge" }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(/the edge cannot serve it: it has \d+ bytes/),
      remedy: "Import it with --place region.",
    });
  });

  it("lowers a version of the format that ONNX Runtime does not take yet", async () => {
    const made = await runImport(
      Object.assign(sum(), { irVersion: 99n }),
      { task: "tensor" },
      { place: "region" },
    );
    expect([graphOf(made).irVersion, made.notes]).toEqual([
      13n,
      [expect.stringContaining("version 99 of the format")],
    ]);
  });

  it("tells weights that are not numbers, and quantised graphs by their operators", async () => {
    const made = await runImport(
      model({
        inputs: ["x: float [N, 2]"],
        outputs: ["y: float [N, 2]"],
        constants: [floatTensor("w", [Number.NaN, Number.NEGATIVE_INFINITY])],
        nodes: [node("Add x w -> y")],
      }),
      { task: "tensor" },
    );
    expect(made.notes).toEqual([
      '"w" holds 1 numbers that are NaN',
      '"w" holds 1 numbers that are infinite',
    ]);
    const int8 = parseModel(
      await readFile(join(import.meta.dirname, "../../../models/intent/artifacts/edge.onnx")),
    );
    expect((await runImport(int8, { task: "tensor" })).project.tiers[0]?.id).toBe("edge-int8");
  });

  it("is refused for an input that is larger than any request, before a runtime sees it", async () => {
    const shapeOf = (size: number) =>
      model({
        inputs: [`n: int64 [${size}]`],
        outputs: ["y: float []"],
        nodes: [node("ConstantOfShape n -> y")],
      });
    await expect(
      runImport(shapeOf(2 ** 31 - 1), { task: "tensor" }, { place: "region" }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringContaining('input "n" is declared with a dimension of 2147483647'),
    });
  });

  it("is refused for unknown operators, all of them, in bodies too", async () => {
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
      detail:
        "given.onnx cannot be imported: operator Gelu (1 node) is not in version 13 of ONNX's operators; operator com.unnamed.Other (1 node) is of a domain of which the model names no version; operator com.example.Mystery (2 nodes) is neither ONNX's nor ONNX Runtime's.",
    });
  });

  it("is refused with ONNX Runtime's reason where that does not take it", async () => {
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
      detail: expect.stringMatching(/ONNX Runtime failed: .*Add/),
    });
    const future = model({
      opset: 99,
      inputs: ["x: float [2]"],
      outputs: ["y: float [2]"],
      nodes: [node("Relu x -> y")],
    });
    await expect(runImport(future, { task: "tensor" })).rejects.toMatchObject({
      detail: expect.stringMatching(
        /^given.onnx cannot be imported: ONNX Runtime failed: ONNX Runtime only \*guarantees\* support/,
      ),
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

  it("is refused where it takes nothing, or does not run on what it is tried with", async () => {
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
      detail: expect.stringContaining("takes no inputs"),
    });
    const picky = model({
      inputs: ["x: float [N, M]"],
      outputs: ["y: float [5, 7]"],
      constants: [int64Tensor("shape", [5, 7])],
      nodes: [node("Reshape x shape -> y")],
    });
    await expect(runImport(picky, { task: "tensor" })).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringContaining("does not run on the inputs that it was tried with"),
      remedy: expect.stringContaining("--samples"),
    });
    const huge = model({
      inputs: ["x: float [N, 3, 100000, 100000]"],
      outputs: ["y: float [N, 3, 100000, 100000]"],
      nodes: [node("Relu x -> y")],
    });
    await expect(runImport(huge, { task: "tensor" })).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringContaining("no inputs can be made up for it"),
      remedy: expect.stringContaining("--samples"),
    });
  });
});

describe("images in, a label out", () => {
  const labels = ["a", "b", "c"];
  const image = { mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2], fit: "stretch" } as const;
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

  it("names input and logits, and takes a last Softmax off", async () => {
    const made = await runImport(classifier("data: float [N, 3, 8, 6]", node("Relu data -> h")), {
      task: "image-classification",
      labels,
      image,
    });
    expect(made.project).toMatchObject({
      task: "image-classification",
      labels: "artifacts/labels.json",
      tiers: [
        {
          place: "edge",
          preprocessor: {
            kind: "image",
            width: 6,
            height: 8,
            mean: image.mean,
            std: image.std,
            fit: "stretch",
          },
          calibration: { temperature: 1 },
          exit: null,
        },
      ],
    });
    const [tier] = made.project.tiers;
    expect([shapes(tier?.inputs), shapes(tier?.outputs), operators(made)]).toEqual([
      ["pixels FP32 [-1, 3, 8, 6]"],
      ["logits FP32 [-1, 3]"],
      ["Relu", "ReduceMean", "MatMul"],
    ]);
    expect(made.notes).toEqual([
      'the Softmax that makes "probabilities" is taken off: confidence is calibrated on logits',
      'output "scores" is now called "logits"',
      'input "data" is now called "pixels"',
    ]);
    expect(made.missing).toHaveLength(3);
  });

  it("takes channels that come last, and a batch of one, apart", async () => {
    const last = classifier(
      "data: float [1, 8, 6, 3]",
      node("Transpose data -> h", [intListAttribute("perm", [0, 3, 1, 2])]),
    );
    const made = await runImport(last, { task: "image-classification", labels, image });
    expect([shapes(made.project.tiers[0]?.inputs), operators(made).slice(0, 2)]).toEqual([
      ["pixels FP32 [-1, 3, 8, 6]"],
      ["Transpose", "Transpose"],
    ]);
    expect(made.notes).toContain("its batch was of a fixed size, and may be any now");
  });

  it("says so where the graph works with a batch of one only", async () => {
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
      runImport(fixed, { task: "image-classification", labels, image }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringContaining("works only for the batch that it was exported with"),
      remedy: expect.stringContaining("dynamic_axes"),
    });
  });

  it("takes labels from the metadata, and size from its maker", async () => {
    const any = classifier("pixels: float [N, 3, H, W]", node("Relu pixels -> h"));
    any.metadataProps = [
      create(StringStringEntryProtoSchema, { key: "names", value: "{0: 'a', 1: 'b', 2: 'c'}" }),
    ];
    const made = await runImport(any, {
      task: "image-classification",
      image: { ...image, size: { width: 32, height: 16 } },
    });
    expect(made.notes).toContain('3 labels are taken from its metadata, "a" first');
    expect(new TextDecoder().decode(made.files.get("artifacts/labels.json"))).toBe(
      '["a","b","c"]\n',
    );
    expect(made.project.tiers[0]).toMatchObject({ preprocessor: { width: 32, height: 16 } });
  });

  it("does not take weights for inputs that are listed among them, as old exporters do", async () => {
    const old = classifier("data: float [N, 3, 8, 6]", node("Relu data -> h"));
    old.graph.input.push(makeValueInfo("w: float [3, 3]"));
    expect(inferTask(old)).toBe("image-classification");
    const made = await runImport(
      old,
      { task: "image-classification", labels, image },
      { place: "region" },
    );
    expect(made.notes[0]).toBe("1 of its inputs are weights, and no inputs any more");
  });

  it("names all that is missing at once", async () => {
    await expect(
      runImport(classifier("pixels: float [N, 3, H, W]", node("Relu pixels -> h")), {
        task: "image-classification",
      }),
    ).rejects.toMatchObject({
      code: "not_importable",
      detail: expect.stringMatching(
        /its labels are not known; it takes images of any size; it is not known how its pixels are normalised/,
      ),
      remedy: expect.stringMatching(/--labels.*--size.*--mean/),
    });
  });

  it.each([
    ["data: float [N, 5, 8, 6]", "three channels neither first nor last"],
    ["data: float [N, 3, 8]", "an image's is one of four dimensions"],
    ["data: uint8 [N, 3, 8, 6]", "is not FP32"],
  ])("refuses %s", async (input, reason) => {
    await expect(
      runImport(classifier(input, node("Relu data -> h")), {
        task: "image-classification",
        labels,
        image,
      }),
    ).rejects.toMatchObject({ code: "not_importable", detail: expect.stringContaining(reason) });
  });

  it("refuses labels that are not as many as the logits", async () => {
    await expect(
      runImport(classifier("data: float [N, 3, 8, 6]", node("Relu data -> h")), {
        task: "image-classification",
        labels: ["a", "b"],
        image,
      }),
    ).rejects.toMatchObject({
      detail: expect.stringContaining("it gives 3 logits, and there are 2 labels"),
    });
  });
});

describe("a text in, a label out", () => {
  const labels = ["yes", "no"];
  const text = {
    kind: "wordpiece",
    artifact: new TextEncoder().encode(JSON.stringify(tinyTokenizer)),
    maxTokens: 16,
  } as const;
  const bert = (type: string, ...more: string[]) =>
    model({
      opset: 17,
      inputs: [
        `input_ids: ${type} [N, L]`,
        `attention_mask: ${type} [N, L]`,
        ...more.map((name) => `${name}: ${type} [N, L]`),
      ],
      outputs: ["scores: float [N, 2]", "hidden: float [N, 1]"],
      constants: [floatTensor("w", [0.1, -0.2], [1, 2])],
      nodes: [
        node("Add input_ids attention_mask -> s_0"),
        ...more.map((name, index) => node(`Add s_${index} ${name} -> s_${index + 1}`)),
        node(`Cast s_${more.length} -> real`, [makeIntAttribute("to", 1)]),
        node("ReduceMean real -> hidden", [intListAttribute("axes", [1])]),
        node("MatMul hidden w -> scores"),
      ],
    });

  it("fills segments with zeros, and casts ids that are of 32 bits", async () => {
    const made = await runImport(bert("int32", "token_type_ids"), {
      task: "text-classification",
      labels,
      text,
      logitsOutput: "scores",
    });
    expect(shapes(made.project.tiers[0]?.inputs)).toEqual([
      "input_ids INT64 [-1, -1]",
      "attention_mask INT64 [-1, -1]",
    ]);
    expect(made.project).toMatchObject({
      task: "text-classification",
      tiers: [
        {
          preprocessor: { kind: "wordpiece", artifact: "artifacts/tokenizer.json", maxTokens: 16 },
        },
      ],
    });
    expect(made.notes).toEqual([
      'output "scores" is now called "logits"',
      'input "token_type_ids" is taken off: for one text it is zeros',
      'input "input_ids" takes INT64, which is cast to INT32',
      'input "attention_mask" takes INT64, which is cast to INT32',
    ]);
    const [answer] = made.sampleOutputs;
    expect(answer?.["logits"]?.shape).toEqual([1, 2]);
  });

  it("asks which output has the logits where two may, and for other inputs", async () => {
    await expect(
      runImport(bert("int64", "position"), { task: "text-classification", labels, text }),
    ).rejects.toMatchObject({
      detail: expect.stringMatching(
        /several of its outputs may be the logits: scores, hidden; its inputs are "input_ids", "attention_mask", "position", where a wordpiece preprocessor gives input_ids and attention_mask/,
      ),
    });
    await expect(
      runImport(bert("int64"), { task: "text-classification", labels, logitsOutput: "nothing" }),
    ).rejects.toMatchObject({
      detail: expect.stringMatching(
        /"nothing" is no output of it.*not known how a text becomes its input/,
      ),
    });
  });
});

it("guesses a task by inputs and outputs", () => {
  const guess = (inputs: string[], output: string) =>
    inferTask(model({ inputs, outputs: [output], nodes: [] }));
  expect(
    guess(["input_ids: int64 [N, L]", "attention_mask: int64 [N, L]"], "y: float [N, 2]"),
  ).toBe("text-classification");
  expect(guess(["x: float [N, 3, 32, 32]"], "y: float [N, 10]")).toBe("image-classification");
  expect(guess(["x: float [N, 32, 32, 3]"], "y: float [N, 10]")).toBe("image-classification");
  expect(guess(["x: float [N, 3, 32, 32]"], "y: float [N, 3, 32, 32]")).toBe("tensor");
  expect(guess(["x: float [N, 4]"], "y: float [N, 10]")).toBe("tensor");
});
