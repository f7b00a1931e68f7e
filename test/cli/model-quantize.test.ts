// Tests `edgetier model quantize`: its files, its tables and JSON, and its errors.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { serializeModel } from "../../src/toolchain/onnx/model-file.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { floatTensor, model, node } from "../toolchain/onnx/model-builders.ts";
import { encodeNpy } from "../toolchain/quantize/encode-npy.ts";
import { randomFp32Tensor } from "../toolchain/quantize/run-model.ts";

let folder: string;
let net: string;
let samples: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-quantize-"));
  [net, samples] = [join(folder, "net.onnx"), join(folder, "samples.jsonl")];
  const weights = (seed: number) => [...randomFp32Tensor([64, 64], seed).data];
  const dead = weights(1).map((value, index) => (index % 64 === 0 ? 0 : value));
  const uneven = weights(2).map((value, index) => (index === 0 ? 300 : value));
  const nodes = [
    node("MatMul x w1 -> a"),
    node("Relu a -> b"),
    node("MatMul b w2 -> c"),
    node("MatMul c w3 -> y"),
  ];
  await writeFile(
    net,
    serializeModel(
      model({
        inputs: ["x: float [N, 64]"],
        outputs: ["y: float [N, 64]"],
        constants: [
          floatTensor("w1", dead, [64, 64]),
          floatTensor("w2", uneven, [64, 64]),
          floatTensor("w3", weights(3), [64, 64]),
        ],
        nodes,
      }),
    ),
  );
  await writeFile(
    samples,
    Array.from({ length: 20 }, (_, seed) =>
      JSON.stringify({
        inputs: [{ name: "x", shape: [1, 64], data: [...randomFp32Tensor([64], seed).data] }],
      }),
    ).join("\n"),
  );
});
afterAll(async () => await rm(folder, { recursive: true }));

describe("edgetier model quantize", () => {
  it("writes an integer graph and prints its size and its differences", async () => {
    const out = join(folder, "static.onnx");
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "quantize",
      net,
      "-o",
      out,
      "--samples",
      samples,
    ]);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^Next: [^\n]*\n$/),
    });
    expect(stdout).toMatch(/^bytes +48\.\d KiB -> 1\d\.\d KiB +\d\d\.\d %$/m);
    expect(stdout).toMatch(/^layers in integers +3 +3 MatMul$/m);
    expect(stdout).toMatch(/^y +\S+ +\S+ +\d+\.\d dB +\d+\.\d %$/m);
    const session = await createNativeRuntime().createSession(await readFile(out));
    expect(session.inputs).toEqual([{ name: "x", datatype: "FP32", shape: [-1, 64] }]);
    await session.dispose();
  });
});

describe("edgetier model quantize --json", () => {
  it("prints JSON, quantizes dynamically without samples, and reads a NumPy array", async () => {
    const out = join(folder, "dynamic.onnx");
    const { code, stdout } = await runEdgetier([
      "model",
      "quantize",
      net,
      `--out=${out}`,
      "--mode",
      "dynamic",
      "--keep",
      "make_a",
      "--keep",
      "make_y",
      "--json",
    ]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      out,
      bytesAfter: (await readFile(out)).byteLength,
      layers: [{ node: "make_c", op: "MatMul" }],
      kept: [{ node: "make_a", reason: expect.any(String) }, { node: "make_y" }],
      comparedOn: "made-up inputs",
      differences: [{ output: "y" }],
    });
    const array = join(folder, "samples.npy");
    await writeFile(array, encodeNpy("<f4", [4, 64], randomFp32Tensor([4, 64], 1).data));
    const read = await runEdgetier([
      "model",
      "quantize",
      net,
      "-o",
      out,
      "--samples",
      array,
      "--range-method",
      "percentile",
      "--percentile",
      "99.9",
      "--no-per-channel",
      "--correct-biases",
      "--equalize",
      "--json",
    ]);
    expect(JSON.parse(read.stdout)).toMatchObject({
      comparedOn: "samples",
      equalised: [
        { first: "make_a", second: "make_c" },
        { first: "make_c", second: "make_y" },
      ],
    });
  });
});

describe("the sensitivity of edgetier model quantize", () => {
  it("keeps the most sensitive layers in FP32", async () => {
    const out = join(folder, "kept.onnx");
    const options = ["--samples", samples, "--no-per-channel", "--sensitivity"];
    const { code, stdout } = await runEdgetier([
      "model",
      "quantize",
      net,
      "-o",
      out,
      ...options,
      "--keep-worst",
      "1",
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^make_c +MatMul +.*\d+\.\d dB/m);
    expect(stdout).toMatch(/\nNODE +OPERATOR +SIGNAL.*\nmake_c /);
    const found = await runEdgetier([
      "model",
      "quantize",
      net,
      "-o",
      out,
      ...options,
      "--min-agreement",
      "0.9",
      "--json",
    ]);
    expect(found.code).toBe(0);
    const { kept, differences } = JSON.parse(found.stdout);
    expect(kept.map((one: { node: string }) => one.node)).toContain("make_c");
    expect(differences[0].argmaxAgreement).toBeGreaterThanOrEqual(0.9);
  });

  it("fails if no number of FP32 layers reaches the bound, after it has printed the agreement", async () => {
    const { stdout, ...failure } = await runFailingEdgetier([
      "model",
      "quantize",
      net,
      "-o",
      join(folder, "missed.onnx"),
      "--samples",
      samples,
      "--no-per-channel",
      "--min-agreement",
      "1",
      "--keep-worst",
      "0",
    ]);
    expect(failure).toMatchObject({ exitCode: 1, code: "agreement_missed" });
    expect(JSON.parse(stdout).differences[0].argmaxAgreement).toBeLessThan(1);
  });
});

describe("errors of edgetier model quantize", () => {
  const dynamic = ["net.onnx", "-o", "x.onnx", "--mode", "dynamic"];
  it.each([
    [dynamic.with(0, "missing.onnx"), 1, "model_file_unreadable", "missing.onnx"],
    [["net.onnx"], 2, "usage", "--out"],
    [["net.onnx", "-o", "x.onnx"], 2, "usage", "--samples"],
    [["net.onnx", "-o", "x.onnx", "--mode", "half"], 2, "usage", "--mode"],
    [[...dynamic, "--keep-worst", "two"], 2, "usage", "--keep-worst"],
    [dynamic.with(2, "no/such/folder/x.onnx"), 2, "usage", "no/such/folder/x.onnx"],
    [[...dynamic, "--keep", "MatMul"], 1, "not_quantizable", "3 layers"],
    [[...dynamic, "--keep", "Gelu"], 1, "not_quantizable", '"Gelu"'],
    [["net.onnx", "-o", "x.onnx", "--samples", "net.onnx"], 1, "invalid_tensor_samples", ""],
  ])("rejects %j with exit code %i and %s", async (args, exitCode, code, value) => {
    expect(
      await runFailingEdgetier([
        "model",
        "quantize",
        ...args.map((arg) => (arg.endsWith(".onnx") ? join(folder, arg) : arg)),
      ]),
    ).toMatchObject({ exitCode, stdout: "", code, detail: expect.stringContaining(value) });
  });
});
