// `edgetier model optimise` as its users meet it.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseModel, serializeModel } from "../../src/toolchain/onnx/model-file.ts";
import { floatTensor, int64Tensor, model, node } from "../toolchain/onnx/model-builders.ts";
import { runEdgetier } from "../support/edgetier-command.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-optimise-"));
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

describe("edgetier model optimise", () => {
  it("writes a smaller graph, and tells what each pass did and how far the answers are off", async () => {
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "optimise",
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

  it("runs the passes that are named, ONNX Runtime's among them, and says which operators are its own", async () => {
    const { code, stdout } = await runEdgetier([
      "model",
      "optimise",
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
    expect([after.nodes, after.bytes, check.problems]).toEqual([
      1,
      (await readFile(at("fused.onnx"))).byteLength,
      [],
    ]);
  });

  it("checks on samples that are given, where none can be made up", async () => {
    const args = ["model", "optimise", at("picky.onnx"), "-o", at("picky-small.onnx")];
    const refused = await runEdgetier(args);
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining("does not run on made-up inputs"),
    ]);
    await writeFile(
      at("samples.jsonl"),
      JSON.stringify({
        inputs: [
          { name: "x", shape: [7, 5], data: Array.from({ length: 35 }, (_, index) => index) },
        ],
      }),
    );
    const { code, stdout } = await runEdgetier([...args, "--samples", at("samples.jsonl")]);
    expect([code, stdout]).toEqual([0, expect.stringContaining("in 1 runs")]);
  });

  it.each([
    [["missing.onnx", "-o", "x.onnx"], 1, "cannot be read"],
    [["full.onnx"], 2, "Missing required argument: --out"],
    [["full.onnx", "-o", "x.onnx", "--passes", "everything"], 1, 'There is no pass "everything"'],
    [["full.onnx", "-o", "x.onnx", "--tolerance", "much"], 2, "--tolerance"],
    [["full.onnx", "-o", "no/such/folder/x.onnx"], 2, "cannot be written"],
    [
      ["full.onnx", "-o", "x.onnx", "--samples", "none.jsonl"],
      1,
      "no samples that this model takes",
    ],
  ])("answers %j with exit code %i and what was wrong", async (args, expected, problem) => {
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "optimise",
      ...args.map((arg) => (/onnx|jsonl/.test(arg) && arg.includes(".") ? at(arg) : arg)),
    ]);
    expect({ code, stdout }).toEqual({ code: expected, stdout: "" });
    expect(stderr).toContain(problem);
  });
});
