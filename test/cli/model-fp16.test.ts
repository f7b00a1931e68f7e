// Tests `edgetier model fp16`: its files, its tables and JSON, and its errors.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { serializeModel } from "../../src/toolchain/onnx/model-file.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { floatTensor, int64Tensor, model, node } from "../toolchain/onnx/model-builders.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-fp16-"));
});
afterAll(async () => await rm(folder, { recursive: true }));

async function writeGraph(name: string, constant: number): Promise<string> {
  const path = join(folder, name);
  const nodes = [node("Mul x w -> h"), node("Mul h w -> s"), node("Softmax s -> y")];
  await writeFile(
    path,
    serializeModel(
      model({
        inputs: ["x: float [N, 3]"],
        outputs: ["y: float [N, 3]", "s: float [N, 3]"],
        constants: [floatTensor("w", [constant, 1, 1e-9])],
        nodes,
      }),
    ),
  );
  return path;
}

describe("edgetier model fp16", () => {
  it("writes an FP16 graph and prints its differences and its FP32 layers", async () => {
    const out = join(folder, "half.onnx");
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "fp16",
      await writeGraph("full.onnx", 2),
      "-o",
      out,
      "--keep",
      "Softmax",
      "--keep",
      "make_s",
    ]);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^Next: [^\n]*\n$/),
    });
    expect(stdout).toMatch(/^constants .* 1$/m);
    expect(stdout).toMatch(/^y +\d\S+ +\d\S+ +\d\S+ +100\.0 % +0$/m);
    expect(stdout).toMatch(/^1 +Softmax +\S/m);
    expect(stdout).toMatch(/^1 +Mul +\S/m);
    const session = await createNativeRuntime().createSession(await readFile(out));
    expect(session.inputs).toEqual([{ name: "x", datatype: "FP32", shape: [-1, 3] }]);
    await session.dispose();
  });

  it("prints JSON, and writes FP16 inputs and outputs with --io fp16", async () => {
    const out = join(folder, "io.onnx");
    const { code, stdout } = await runEdgetier([
      "model",
      "fp16",
      await writeGraph("full.onnx", 2),
      `--out=${out}`,
      "--io",
      "fp16",
      "--json",
    ]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      out,
      bytesAfter: (await readFile(out)).byteLength,
      kept: [],
      casts: 0,
      comparison: { rounds: true, runs: 24, outputs: [{ output: "y", lost: 0 }, { output: "s" }] },
      comparisonInFp32: null,
    });
    const session = await createNativeRuntime().createSession(await readFile(out));
    expect(session).toMatchObject({
      inputs: [{ name: "x", datatype: "FP16" }],
      outputs: [
        { name: "y", datatype: "FP16" },
        { name: "s", datatype: "FP16" },
      ],
    });
    await session.dispose();
  });
});

describe("edgetier model fp16 with special graphs", () => {
  it("converts a quantized graph to FP16 with --dequantize", async () => {
    const { code, stdout } = await runEdgetier([
      "model",
      "fp16",
      join(import.meta.dirname, "../../models/intent/artifacts/edge.onnx"),
      "-o",
      join(folder, "edge.onnx"),
      "--dequantize",
      "--json",
    ]);
    expect(code).toBe(0);
    const { dequantised, comparison, comparisonInFp32 } = JSON.parse(stdout);
    expect(dequantised).toEqual({ constants: 4, activations: 2 });
    expect(comparisonInFp32.outputs[0].maxAbsolute).toBeLessThan(
      comparison.outputs[0].maxAbsolute / 2,
    );
  });

  it("reports that it cannot run the graph on made-up inputs", async () => {
    const path = join(folder, "picky.onnx");
    await writeFile(
      path,
      serializeModel(
        model({
          inputs: ["x: float [N, M]"],
          outputs: ["y: float [5, 7]"],
          constants: [int64Tensor("shape", [5, 7])],
          nodes: [node("Reshape x shape -> y")],
        }),
      ),
    );
    const { code, stdout } = await runEdgetier([
      "model",
      "fp16",
      path,
      "-o",
      join(folder, "picky-half.onnx"),
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/reshape/i); // ONNX Runtime's reason
  });
});

describe("errors of edgetier model fp16", () => {
  it("fails if values overflow, after it has printed the outputs concerned", async () => {
    const args = [
      "model",
      "fp16",
      await writeGraph("large.onnx", 60_000),
      "-o",
      join(folder, "large-half.onnx"),
    ];
    expect((await runEdgetier(args)).stdout).toMatch(/^s .* [1-9]\d*$/m);
    const { stdout, ...failure } = await runFailingEdgetier(args);
    expect(failure).toMatchObject({ exitCode: 1, code: "fp16_overflow" });
    expect(JSON.parse(stdout).comparison.outputs).toContainEqual(
      expect.objectContaining({ output: "s", lost: expect.any(Number) }),
    );
  });

  it.each([
    [["missing.onnx", "-o", "x.onnx"], 2, "usage", "missing.onnx"],
    [["full.onnx"], 2, "usage", "--out"],
    [["full.onnx", "-o", "x.onnx", "--io", "fp8"], 2, "usage", "--io"],
    [["full.onnx", "-o", "no/such/folder/x.onnx"], 2, "usage", "no/such/folder/x.onnx"],
    [["full.onnx", "-o", "x.onnx", "--keep", "Gelu"], 1, "not_convertible", '"Gelu"'],
    [["../external.onnx", "-o", "x.onnx"], 1, "external_data", '"w"'],
    [["text.onnx", "-o", "x.onnx"], 1, "invalid_model_file", ""],
  ])("rejects %j with exit code %i and %s", async (args, exitCode, code, value) => {
    await writeGraph("full.onnx", 2);
    await writeFile(join(folder, "text.onnx"), "not a model");
    const places = new Map([
      ["../external.onnx", join(import.meta.dirname, "../fixtures/external-data.onnx")],
    ]);
    expect(
      await runFailingEdgetier([
        "model",
        "fp16",
        ...args.map((arg) => places.get(arg) ?? (arg.endsWith(".onnx") ? join(folder, arg) : arg)),
      ]),
    ).toMatchObject({ exitCode, stdout: "", code, detail: expect.stringContaining(value) });
  });
});
