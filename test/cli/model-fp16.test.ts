// `edgetier model fp16` as its users meet it.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serializeModel } from "../../src/toolchain/onnx/model-file.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { floatTensor, int64Tensor, model, node } from "../toolchain/onnx/model-builders.ts";
import { runEdgetier } from "../support/edgetier-command.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-fp16-"));
});
afterAll(async () => await rm(folder, { recursive: true }));

async function written(name: string, constant: number): Promise<string> {
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
  it("writes an FP16 graph, and tells how far it is from the original and what is in FP32 still", async () => {
    const out = join(folder, "half.onnx");
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "fp16",
      await written("full.onnx", 2),
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
    expect(stdout).toMatch(/constants kept from becoming 0 +1/);
    expect(stdout).toMatch(/^y +\d\S+ +\d\S+ +\d\S+ +100\.0 % +0$/m);
    expect(stdout).toMatch(/1 +Softmax +as asked for/);
    expect(stdout).toMatch(/1 +Mul +as asked for/);
    const session = await createNativeRuntime().createSession(await readFile(out));
    expect(session.inputs).toEqual([{ name: "x", datatype: "FP32", shape: [-1, 3] }]);
    await session.dispose();
  });

  it("gives JSON, and FP16 inputs and outputs where they are asked for", async () => {
    const out = join(folder, "io.onnx");
    const { code, stdout } = await runEdgetier([
      "model",
      "fp16",
      await written("full.onnx", 2),
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
    expect([...session.inputs, ...session.outputs].map(({ datatype }) => datatype)).toEqual([
      "FP16",
      "FP16",
      "FP16",
    ]);
    await session.dispose();
  });

  it("makes a quantised graph FP16 altogether with --dequantise", async () => {
    const { code, stdout } = await runEdgetier([
      "model",
      "fp16",
      join(import.meta.dirname, "../../models/intent/artifacts/edge.onnx"),
      "-o",
      join(folder, "edge.onnx"),
      "--dequantise",
      "--json",
    ]);
    expect(code).toBe(0);
    const { dequantised, comparison, comparisonInFp32 } = JSON.parse(stdout);
    expect(dequantised).toEqual({ constants: 4, activations: 2 });
    expect(comparisonInFp32.outputs[0].maxAbsolute).toBeLessThan(
      comparison.outputs[0].maxAbsolute / 2,
    );
  });

  it("says so where it cannot compare", async () => {
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
    expect(stdout).toMatch(/Not compared: .*does not run on made-up inputs: .*reshape/i);
  });

  it("fails where numbers overflow, after it has shown which", async () => {
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "fp16",
      await written("large.onnx", 60_000),
      "-o",
      join(folder, "large-half.onnx"),
    ]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^s .* [1-9]\d*$/m);
    expect(stderr).toMatch(/not finite.*of s.*--keep/s);
  });

  it.each([
    [["missing.onnx", "-o", "x.onnx"], 2, "missing.onnx cannot be read"],
    [["full.onnx"], 2, "Missing required argument: --out"],
    [["full.onnx", "-o", "x.onnx", "--io", "fp8"], 2, "--io"],
    [["full.onnx", "-o", "no/such/folder/x.onnx"], 2, "cannot be written"],
    [
      ["full.onnx", "-o", "x.onnx", "--keep", "Gelu"],
      1,
      '"Gelu", to be kept, is neither an operator nor a node',
    ],
    [["../external.onnx", "-o", "x.onnx"], 1, "has its data in another file"],
    [["text.onnx", "-o", "x.onnx"], 1, "not a valid ONNX model"],
  ])("answers %j with exit code %i and what was wrong", async (args, expected, problem) => {
    await written("full.onnx", 2);
    await writeFile(join(folder, "text.onnx"), "not a model");
    const places = new Map([
      ["../external.onnx", join(import.meta.dirname, "../fixtures/external-data.onnx")],
    ]);
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "fp16",
      ...args.map((arg) => places.get(arg) ?? (arg.endsWith(".onnx") ? join(folder, arg) : arg)),
    ]);
    expect({ code, stdout }).toEqual({ code: expected, stdout: "" });
    expect(stderr).toContain(problem);
  });
});
