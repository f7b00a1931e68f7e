// All passes together on graphs made at random: fewer nodes, and the same answers.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Model, readModel, writeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { checkOutputs } from "../../../src/toolchain/passes/check.ts";
import { optimise } from "../../../src/toolchain/passes/optimise.ts";
import { nodesOf } from "../../../src/toolchain/passes/runtime-optimisation.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { floats, int64s, model, node } from "../onnx/small-model.ts";
import { anyModel } from "./any-model.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });
const copyOf = (model: Model): Model => readModel(writeModel(model));

it("leaves answers as they were, and nothing for a second run, for any graph", async () => {
  await fc.assert(
    fc.asyncProperty(anyModel, async ({ model }) => {
      const before = writeModel(model);
      const optimised = copyOf(model);
      const report = await optimise(optimised, { runtime });
      const after = writeModel(optimised);
      expect(report.after).toEqual({
        nodes: [...nodesOf(optimised)].length,
        bytes: after.byteLength,
      });
      expect((await checkOutputs(runtime, before, after, { tolerance: 1e-5 })).problems).toEqual(
        [],
      );
      const again = await optimise(copyOf(optimised), { runtime });
      expect(again.passes.filter(({ changes }) => changes > 0)).toEqual([]);
      const once = copyOf(model);
      await optimise(once, { runtime });
      expect(writeModel(once)).toEqual(after);
    }),
    { numRuns: 100, seed: 1 },
  );
});

describe("what is told of it", () => {
  const sample = () =>
    model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      nodes: [node("Identity x -> a"), node("Identity a -> b"), node("Relu b -> y")],
      constants: [floats("spare", [1, 2, 3])],
    });

  it("is what each pass changed, in nodes and bytes", async () => {
    const changed = sample();
    const events: string[] = [];
    const report = await optimise(changed, {
      runtime,
      passes: ["remove-unused", "remove-identity"],
      onProgress: ({ pass, round }) => events.push(`${round} ${pass}`),
    });
    expect(report.before.nodes).toBe(3);
    expect(report.after).toEqual({ nodes: 1, bytes: writeModel(changed).byteLength });
    expect(report.passes).toEqual([
      { pass: "remove-unused", changes: 1, nodes: 0, bytes: expect.any(Number) },
      { pass: "remove-identity", changes: 2, nodes: -2, bytes: expect.any(Number) },
    ]);
    expect(report.passes.reduce((sum, { bytes }) => sum + bytes, report.before.bytes)).toBe(
      report.after.bytes,
    );
    expect(events).toEqual([
      "1 remove-unused",
      "1 remove-identity",
      "2 remove-unused",
      "2 remove-identity",
    ]);
  });

  it("is the name of a pass that there is not", async () => {
    await expect(
      optimise(sample(), { runtime, passes: ["fold-everything"] }),
    ).rejects.toMatchObject({
      code: "unknown_pass",
      remedy: expect.stringContaining("fold-constants"),
    });
  });
});

describe("the check of outputs", () => {
  const scaled = (factor: number) =>
    writeModel(
      model({
        inputs: ["x: float [N, 2]"],
        outputs: ["y: float [N, 2]"],
        nodes: [node("Mul x k -> y")],
        constants: [floats("k", [factor], [])],
      }),
    );

  it("allows for rounding, and for no more", async () => {
    expect((await checkOutputs(runtime, scaled(1), scaled(1.0001))).problems).toEqual([]);
    const { problems, outputs } = await checkOutputs(runtime, scaled(1), scaled(1.01));
    expect(problems).toEqual([
      expect.stringMatching(/^output y is off by 0\.00\d+, with numbers up to 0\.\d+$/),
    ]);
    expect(outputs).toEqual([expect.objectContaining({ output: "y", argmaxAgreement: 1 })]);
    expect(
      (await checkOutputs(runtime, scaled(1), scaled(1.01), { tolerance: 0.02 })).problems,
    ).toEqual([]);
  });

  it("sees infinities, other shapes and missing outputs", async () => {
    expect(
      (await checkOutputs(runtime, scaled(1), scaled(Number.POSITIVE_INFINITY))).problems,
    ).toContainEqual(expect.stringContaining("not finite"));
    const other = (outputs: string[], nodes: ReturnType<typeof node>[]) =>
      writeModel(model({ inputs: ["x: float [N, 2]"], outputs, nodes }));
    expect(
      (
        await checkOutputs(
          runtime,
          scaled(1),
          other(["y: float [2, N]"], [node("Transpose x -> y")]),
        )
      ).problems,
    ).toContain("output y has the shape [2, 1] instead of [1, 2]");
    expect(
      (await checkOutputs(runtime, scaled(1), other(["z: float [N, 2]"], [node("Relu x -> z")])))
        .problems,
    ).toEqual(["output y is missing"]);
  });

  it("wants whole numbers to be the same", async () => {
    const positions = (from: number) =>
      writeModel(
        model({
          inputs: ["x: float [N, 2]"],
          outputs: ["y: int64 [2]"],
          nodes: [node("Shape x -> s"), node("Add s k -> y")],
          constants: [int64s("k", [from], [])],
        }),
      );
    expect(
      (await checkOutputs(runtime, positions(1_000_000), positions(1_000_001))).problems,
    ).toEqual([
      "output y is 1000002 instead of 1000001 at 0",
      "output y is 1000003 instead of 1000002 at 0",
    ]);
    expect((await checkOutputs(runtime, positions(3), positions(3))).problems).toEqual([]);
  });

  it("says so where there is nothing to compare on", async () => {
    const texts = writeModel(
      model({
        inputs: ["x: string [N]"],
        outputs: ["y: string [N]"],
        nodes: [node("Identity x -> y")],
      }),
    );
    await expect(checkOutputs(runtime, texts, texts)).rejects.toMatchObject({
      code: "not_comparable",
    });
    const inputs = [
      { x: { datatype: "BYTES" as const, shape: [1], data: [new TextEncoder().encode("a text")] } },
    ];
    expect((await checkOutputs(runtime, texts, texts, { inputs })).problems).toEqual([]);
  });
});
