// `edgetier model quantise` as its users meet it.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serializeModel } from "../../src/toolchain/onnx/model-file.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { floatTensor, model, node } from "../toolchain/onnx/model-builders.ts";
import { encodeNpy } from "../toolchain/quantize/encode-npy.ts";
import { randomFp32Tensor } from "../toolchain/quantize/run-model.ts";
import { runEdgetier } from "../support/edgetier-command.ts";

let folder: string;
let net: string;
let samples: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-quantise-"));
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

describe("edgetier model quantise", () => {
  it("writes a graph of integers, and tells how large and how far from the original it is", async () => {
    const out = join(folder, "static.onnx");
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "quantise",
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

  it("gives JSON, needs no samples to quantise dynamically, and takes a NumPy array", async () => {
    const out = join(folder, "dynamic.onnx");
    const { code, stdout } = await runEdgetier([
      "model",
      "quantise",
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
      kept: [{ node: "make_a", reason: "as asked for" }, { node: "make_y" }],
      comparedOn: "made-up inputs",
      differences: [{ output: "y" }],
    });
    const array = join(folder, "samples.npy");
    await writeFile(array, encodeNpy("<f4", [4, 64], randomFp32Tensor([4, 64], 1).data));
    const read = await runEdgetier([
      "model",
      "quantise",
      net,
      "-o",
      out,
      "--samples",
      array,
      "--calibration",
      "percentile",
      "--percentile",
      "99.9",
      "--no-per-channel",
      "--correct-biases",
      "--equalise",
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

  it("keeps the layers in FP32 that hurt most", async () => {
    const out = join(folder, "kept.onnx");
    const options = ["--samples", samples, "--no-per-channel", "--sensitivity"];
    const { code, stdout } = await runEdgetier([
      "model",
      "quantise",
      net,
      "-o",
      out,
      ...options,
      "--keep-worst",
      "1",
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^make_c +MatMul +no\. 1 in sensitivity: \d+\.\d dB alone$/m);
    expect(stdout).toMatch(
      /Each layer alone, the worst first:\nNODE +OPERATOR +SIGNAL TO NOISE +SAME ARGMAX\nmake_c /,
    );
    const found = await runEdgetier([
      "model",
      "quantise",
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

  it("fails where the bound holds with no number of layers, after it has shown how far it came", async () => {
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "quantise",
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
    expect(code).toBe(1);
    expect(stdout).toMatch(/SAME ARGMAX/);
    expect(stderr).toMatch(
      /Only \d+\.\d % of the samples have the same argmax, with 0 layers in FP32; 100\.0 % are wanted/,
    );
  });

  it.each([
    [["missing.onnx", "-o", "x.onnx", "--mode", "dynamic"], 1, "missing.onnx"],
    [["net.onnx"], 2, "Missing required argument: --out"],
    [["net.onnx", "-o", "x.onnx"], 2, "--mode static needs --samples"],
    [["net.onnx", "-o", "x.onnx", "--mode", "half"], 2, "--mode"],
    [
      ["net.onnx", "-o", "x.onnx", "--mode", "dynamic", "--keep-worst", "two"],
      2,
      '--keep-worst "two" is not a number from 0',
    ],
    [["net.onnx", "-o", "no/such/folder/x.onnx", "--mode", "dynamic"], 2, "cannot be written"],
    [
      ["net.onnx", "-o", "x.onnx", "--mode", "dynamic", "--keep", "MatMul"],
      1,
      "none of its 3 layers could be in integers: as asked for",
    ],
    [
      ["net.onnx", "-o", "x.onnx", "--mode", "dynamic", "--keep", "Gelu"],
      1,
      '"Gelu", to be kept, is neither an operator nor a node',
    ],
    [
      ["net.onnx", "-o", "x.onnx", "--samples", "net.onnx"],
      1,
      "has no samples that this model takes",
    ],
  ])("answers %j with exit code %i and what was wrong", async (args, expected, problem) => {
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "quantise",
      ...args.map((arg) => (arg.endsWith(".onnx") ? join(folder, arg) : arg)),
    ]);
    expect({ code, stdout }).toEqual({ code: expected, stdout: "" });
    expect(stderr).toContain(problem);
  });
});
