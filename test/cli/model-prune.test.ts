// Tests `edgetier model prune`: its files, its tables and JSON, and its errors.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { createAlexNet } from "../bench/lib/alexnet.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { makeSmallMobileNet } from "../support/reference-models.ts";

let folder: string;
let alexNet: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-prune-"));
  alexNet = join(folder, "alexnet.onnx");
  await writeFile(
    alexNet,
    createAlexNet({ seed: 1, width: 0.25, hidden: 64, resolution: 64, classes: 10 }),
  );
  await writeFile(join(folder, "int8.onnx"), makeSmallMobileNet());
});
afterAll(async () => await rm(folder, { recursive: true }));

describe("edgetier model prune", () => {
  it("removes channels and prints the savings of each layer", async () => {
    const out = join(folder, "half.onnx");
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "prune",
      alexNet,
      "-o",
      out,
      "--ratio",
      "0.5",
    ]);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^Next: [^\n]*\n$/),
    });
    expect(stdout).toMatch(/^Conv_0 +Conv +5808 -> 2904 +1306800 -> 653400 /m);
    expect(stdout).toMatch(/^Conv_0 +16 +8 +Conv_0$/m);
    expect(stdout).toMatch(/^Gemm_18 +Gemm +10 .*logits/m);
    expect(stdout).toMatch(/^logits +\d\S+ +\d\S+ +\d\S+ +\d+\.\d %$/m);
    const session = await createNativeRuntime().createSession(await readFile(out));
    expect(session.outputs).toEqual([{ name: "logits", datatype: "FP32", shape: [-1, 10] }]);
    await session.dispose();
  });

  it("sets weights to zero with --method magnitude", async () => {
    const { code, stdout } = await runEdgetier([
      "model",
      "prune",
      alexNet,
      "-o",
      join(folder, "sparse.onnx"),
      "--method",
      "magnitude",
      "--ratio",
      "0.8",
      "--global",
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^all .* 80\.0 %$/m);
  });
});

describe("budgets of edgetier model prune", () => {
  it("plans ratios for a budget from sensitivities, and prints JSON", async () => {
    const { code, stdout } = await runEdgetier([
      "model",
      "prune",
      alexNet,
      "-o",
      join(folder, "planned.onnx"),
      "--budget",
      "0.6",
      "--json",
    ]);
    expect(code).toBe(0);
    const { plan, sensitivity, layers, gzipBytesBefore, gzipBytesAfter } = JSON.parse(stdout);
    const macs = (side: "before" | "after") =>
      layers.reduce(
        (sum: number, layer: Record<"before" | "after", { macs: number }>) =>
          sum + layer[side].macs,
        0,
      );
    expect(sensitivity).toMatchObject({
      score: 1,
      parts: expect.arrayContaining([
        {
          part: "Conv_0",
          points: expect.arrayContaining([expect.objectContaining({ ratio: 0.5 })]),
        },
      ]),
    });
    expect(plan.cost).toBe(macs("after"));
    expect(macs("after") / macs("before")).toBeLessThanOrEqual(0.6);
    expect(gzipBytesAfter).toBeLessThan(gzipBytesBefore);
  });
});

describe("errors of edgetier model prune", () => {
  it.each([
    { args: ["alexnet.onnx"], exitCode: 2, code: "usage", value: "--budget" },
    { args: ["alexnet.onnx", "--ratio", "1.5"], exitCode: 2, code: "usage", value: "--ratio" },
    {
      args: ["alexnet.onnx", "--budget", "0.5", "--global"],
      exitCode: 2,
      code: "usage",
      value: "--global",
    },
    {
      args: ["missing.onnx", "--ratio", "0.5"],
      exitCode: 1,
      code: "model_file_unreadable",
      value: "missing.onnx",
    },
    { args: ["int8.onnx", "--ratio", "0.5"], exitCode: 1, code: "nothing_to_prune", value: "" },
    { args: ["alexnet.onnx", "--budget", "0.01"], exitCode: 1, code: "pruning_budget", value: "" },
  ])("rejects $args with exit code $exitCode and $code", async ({ args, value, ...expected }) => {
    expect(
      await runFailingEdgetier([
        "model",
        "prune",
        ...[...args, "-o", "o.onnx"].map((arg) =>
          arg.endsWith(".onnx") ? join(folder, arg) : arg,
        ),
      ]),
    ).toMatchObject({ ...expected, stdout: "", detail: expect.stringContaining(value) });
  });
});
