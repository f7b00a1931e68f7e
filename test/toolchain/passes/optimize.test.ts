// Tests all passes together on random graphs: the outputs remain, and a second run has no effect.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { optimize } from "../../../src/toolchain/passes/optimize.ts";
import { traverseNodes } from "../../../src/toolchain/passes/runtime-optimization.ts";
import { verifyOutputs } from "../../../src/toolchain/passes/verify-outputs.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { floatTensor, int64Tensor, model, node } from "../onnx/model-builders.ts";
import { arbitraryModel } from "./arbitrary-model.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });
const cloneModel = (model: Model): Model => parseModel(serializeModel(model));

it("preserves outputs, deterministically and idempotently, for any graph", async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryModel, async ({ model }) => {
      const before = serializeModel(model);
      const optimized = cloneModel(model);
      const report = await optimize(optimized, { runtime });
      const after = serializeModel(optimized);
      expect(report.after).toEqual({
        nodes: [...traverseNodes(optimized)].length,
        bytes: after.byteLength,
      });
      expect((await verifyOutputs(runtime, before, after, { tolerance: 1e-5 })).problems).toEqual(
        [],
      );
      const again = await optimize(cloneModel(optimized), { runtime });
      expect(again.passes.filter(({ changes }) => changes > 0)).toEqual([]);
      const repeated = cloneModel(model);
      await optimize(repeated, { runtime });
      expect(serializeModel(repeated)).toEqual(after);
    }),
    { numRuns: propertyRuns(100), seed: 1 },
  );
});

describe("the optimization report", () => {
  const sample = () =>
    model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      nodes: [node("Identity x -> a"), node("Identity a -> b"), node("Relu b -> y")],
      constants: [floatTensor("spare", [1, 2, 3])],
    });

  it("counts each pass's changes, in nodes and bytes", async () => {
    const changed = sample();
    const events: string[] = [];
    const report = await optimize(changed, {
      runtime,
      passes: ["remove-unused", "remove-identity"],
      onProgress: ({ pass, round }) => events.push(`${round} ${pass}`),
    });
    expect(report.before.nodes).toBe(3);
    expect(report.after).toEqual({ nodes: 1, bytes: serializeModel(changed).byteLength });
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

  it("rejects an unknown pass and lists the known ones", async () => {
    await expect(
      optimize(sample(), { runtime, passes: ["fold-everything"] }),
    ).rejects.toMatchObject({
      code: "unknown_pass",
      remedy: expect.stringContaining("fold-constants"),
    });
  });
});

const scaled = (factor: number) =>
  serializeModel(
    model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      nodes: [node("Mul x k -> y")],
      constants: [floatTensor("k", [factor], [])],
    }),
  );

describe("the verification of outputs", () => {
  it("tolerates rounding and reports larger differences", async () => {
    expect((await verifyOutputs(runtime, scaled(1), scaled(1.0001))).problems).toEqual([]);
    const { problems, outputs } = await verifyOutputs(runtime, scaled(1), scaled(1.01));
    expect(problems).toEqual([expect.stringMatching(/^output y .* 0\.00\d+, .* 0\.\d+$/)]);
    expect(outputs).toEqual([expect.objectContaining({ output: "y", argmaxAgreement: 1 })]);
    expect(
      (await verifyOutputs(runtime, scaled(1), scaled(1.01), { tolerance: 0.02 })).problems,
    ).toEqual([]);
  });

  it("reports infinities, other shapes and missing outputs", async () => {
    expect(
      (await verifyOutputs(runtime, scaled(1), scaled(Number.POSITIVE_INFINITY))).problems,
    ).toContainEqual(expect.stringMatching(/^output y .*\bnon-finite/));
    const other = (outputs: string[], nodes: ReturnType<typeof node>[]) =>
      serializeModel(model({ inputs: ["x: float [N, 2]"], outputs, nodes }));
    expect(
      (
        await verifyOutputs(
          runtime,
          scaled(1),
          other(["y: float [2, N]"], [node("Transpose x -> y")]),
        )
      ).problems,
    ).toContainEqual(expect.stringMatching(/^output y .*\[2, 1\].*\[1, 2\]$/));
    expect(
      (await verifyOutputs(runtime, scaled(1), other(["z: float [N, 2]"], [node("Relu x -> z")])))
        .problems,
    ).toEqual([expect.stringMatching(/^output y /)]);
  });
});

describe("the verification of outputs", () => {
  it("requires equal integers", async () => {
    const positions = (offset: number) =>
      serializeModel(
        model({
          inputs: ["x: float [N, 2]"],
          outputs: ["y: int64 [2]"],
          nodes: [node("Shape x -> s"), node("Add s k -> y")],
          constants: [int64Tensor("k", [offset], [])],
        }),
      );
    expect(
      (await verifyOutputs(runtime, positions(1_000_000), positions(1_000_001))).problems,
    ).toEqual([
      expect.stringMatching(/^output y .*1000002.*1000001.*\b0$/),
      expect.stringMatching(/^output y .*1000003.*1000002.*\b0$/),
    ]);
    expect((await verifyOutputs(runtime, positions(3), positions(3))).problems).toEqual([]);
  });

  it("rejects graphs without numeric inputs to generate", async () => {
    const texts = serializeModel(
      model({
        inputs: ["x: string [N]"],
        outputs: ["y: string [N]"],
        nodes: [node("Identity x -> y")],
      }),
    );
    await expect(verifyOutputs(runtime, texts, texts)).rejects.toMatchObject({
      code: "not_comparable",
    });
    const inputs = [
      { x: { datatype: "BYTES" as const, shape: [1], data: [new TextEncoder().encode("a text")] } },
    ];
    expect((await verifyOutputs(runtime, texts, texts, { inputs })).problems).toEqual([]);
  });
});
