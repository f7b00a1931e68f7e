// `edgetier model prune` as its users meet it.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { createAlexNet } from "../bench/lib/alexnet.ts";
import { makeSmallMobileNet } from "../support/reference-models.ts";
import { runEdgetier } from "../support/edgetier-command.ts";

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
  it("takes channels out, and tells by layer what that saves", async () => {
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
    expect(stdout).toMatch(/^Gemm_18 +Gemm +10 +they are in the graph's output logits$/m);
    expect(stdout).toMatch(/^logits +\d\S+ +\d\S+ +\d\S+ +\d+\.\d %$/m);
    const session = await createNativeRuntime().createSession(await readFile(out));
    expect(session.outputs).toEqual([{ name: "logits", datatype: "FP32", shape: [-1, 10] }]);
    await session.dispose();
  });

  it("sets weights to 0, and says what that is good for", async () => {
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
    expect(stdout).toContain("it has no sparse kernels");
  });

  it("plans ratios for a budget from sensitivities, and gives JSON", async () => {
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

  it.each([
    { args: ["alexnet.onnx", "-o", "o.onnx"], code: 2, error: "Give --ratio or --budget." },
    {
      args: ["alexnet.onnx", "-o", "o.onnx", "--ratio", "1.5"],
      code: 2,
      error: '--ratio is "1.5", and must be from 0 to below 1.',
    },
    {
      args: ["alexnet.onnx", "-o", "o.onnx", "--budget", "0.5", "--global"],
      code: 2,
      error: "--global takes a --ratio.",
    },
    {
      args: ["missing.onnx", "-o", "o.onnx", "--ratio", "0.5"],
      code: 1,
      error: "missing.onnx cannot be read",
    },
    {
      args: ["int8.onnx", "-o", "o.onnx", "--ratio", "0.5"],
      code: 1,
      error:
        "Nothing in this graph can be pruned: it has no convolution or matrix product with constant weights in FP32.",
    },
    {
      args: ["alexnet.onnx", "-o", "o.onnx", "--budget", "0.01"],
      code: 1,
      error: "cannot be kept",
    },
  ])("$args ends with $code: $error", async ({ args, code, error }) => {
    const ran = await runEdgetier([
      "model",
      "prune",
      ...args.map((arg) => (arg.endsWith(".onnx") ? join(folder, arg) : arg)),
    ]);
    expect(ran).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(error) });
  });
});
