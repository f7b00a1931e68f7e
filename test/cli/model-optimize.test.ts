// Tests `edgetier model optimize`: its files, its tables and JSON, and its errors.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseModel, serializeModel } from "../../src/toolchain/onnx/model-file.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { floatTensor, int64Tensor, model, node } from "../toolchain/onnx/model-builders.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-optimize-"));
  const nodes = [
    node("MatMul x w -> h"),
    node("Add h b -> g"),
    node("Identity g -> i"),
    node("Relu i -> y"),
    node("Sqrt b -> unread"),
  ];
  await write(
    "full.onnx",
    model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [floatTensor("w", [1, 2, 3, 4], [2, 2]), floatTensor("b", [1, 2])],
      nodes,
    }),
  );
  await write(
    "picky.onnx",
    model({
      inputs: ["x: float [N, M]"],
      outputs: ["y: float [5, 7]"],
      constants: [int64Tensor("shape", [5, 7])],
      nodes: [node("Reshape x shape -> y")],
    }),
  );
});
afterAll(async () => await rm(folder, { recursive: true }));

const write = (name: string, sample: ReturnType<typeof model>) =>
  writeFile(join(folder, name), serializeModel(sample));
const at = (name: string) => join(folder, name);

describe("edgetier model optimize", () => {
  it("writes a smaller graph and prints the effect of each pass and the differences", async () => {
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "optimize",
      at("full.onnx"),
      "-o",
      at("small.onnx"),
    ]);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^Next: [^\n]*\n$/),
    });
    expect(stdout).toMatch(/^merge-bias +1 +-1 +\S+$/m);
    expect(stdout).toMatch(/^ +5 -> 2 +/m);
    expect(stdout).toMatch(/^y +\d\S* +\d\S* +\d\S* +100\.0 %$/m);
    expect(
      parseModel(await readFile(at("small.onnx"))).graph.node.map(({ opType }) => opType),
    ).toEqual(["Gemm", "Relu"]);
  });

  it("runs the named passes, and lists the operators that only ONNX Runtime has", async () => {
    const { code, stdout } = await runEdgetier([
      "model",
      "optimize",
      at("full.onnx"),
      "-o",
      at("fused.onnx"),
      "--passes",
      "remove-unused,onnxruntime-extended",
      "--json",
    ]);
    expect(code).toBe(0);
    const { passes, foreignOperators, after, check } = JSON.parse(stdout);
    expect(passes.map(({ pass }: { pass: string }) => pass)).toEqual([
      "remove-unused",
      "onnxruntime-extended",
    ]);
    expect(foreignOperators).toEqual({ "com.microsoft.FusedGemm": 1 });
    const { byteLength } = await readFile(at("fused.onnx"));
    expect({ after, check }).toMatchObject({
      after: { nodes: 1, bytes: byteLength },
      check: { problems: [] },
    });
  });
});

describe("the check of edgetier model optimize", () => {
  it("checks the graph on --samples if it does not run on made-up inputs", async () => {
    const args = ["model", "optimize", at("picky.onnx"), "-o", at("picky-small.onnx")];
    expect(await runFailingEdgetier(args)).toMatchObject({
      exitCode: 1,
      code: "not_comparable",
    });
    await writeFile(
      at("samples.jsonl"),
      JSON.stringify({
        inputs: [
          { name: "x", shape: [7, 5], data: Array.from({ length: 35 }, (_, index) => index) },
        ],
      }),
    );
    const checked = await runEdgetier([...args, "--samples", at("samples.jsonl"), "--json"]);
    expect({ exitCode: checked.code, ...JSON.parse(checked.stdout) }).toMatchObject({
      exitCode: 0,
      check: { runs: 1 },
    });
  });

  const smaller = ["full.onnx", "-o", "x.onnx"];
  it.each([
    [["missing.onnx", "-o", "x.onnx"], 1, "model_file_unreadable", "missing.onnx"],
    [["full.onnx"], 2, "usage", "--out"],
    [[...smaller, "--passes", "everything"], 1, "unknown_pass", '"everything"'],
    [[...smaller, "--tolerance", "much"], 2, "usage", "--tolerance"],
    [["full.onnx", "-o", "no/such/folder/x.onnx"], 2, "usage", "no/such/folder/x.onnx"],
    [[...smaller, "--samples", "none.jsonl"], 1, "invalid_tensor_samples", "none.jsonl"],
  ])("rejects %j with exit code %i and %s", async (args, exitCode, code, value) => {
    expect(
      await runFailingEdgetier([
        "model",
        "optimize",
        ...args.map((arg) => (/onnx|jsonl/.test(arg) && arg.includes(".") ? at(arg) : arg)),
      ]),
    ).toMatchObject({ exitCode, stdout: "", code, detail: expect.stringContaining(value) });
  });
});
