// Tests ONNX Runtime's own optimization on a convolutional model and a transformer: each level's
// operators and compatible runtimes.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ENGINE_FOLDER } from "../../../src/cli/local/paths.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { createWasmRuntime } from "../../../src/runtime/wasm/wasm-runtime.ts";
import { loadEngineInNode } from "../../../src/toolchain/engine/load-engine-in-node.ts";
import { prepareEngine } from "../../../src/toolchain/engine/prepare-engine.ts";
import { dequantize } from "../../../src/toolchain/fp16/dequantize.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { optimize } from "../../../src/toolchain/passes/optimize.ts";
import {
  countNonStandardOperators,
  optimizeWithRuntime,
  type GraphOptimizationLevel,
} from "../../../src/toolchain/passes/runtime-optimization.ts";
import { verifyOutputs } from "../../../src/toolchain/passes/verify-outputs.ts";
import { makeSmallMobileNet } from "../../support/reference-models.ts";
import { floatAttribute, floatTensor, model, node } from "../onnx/model-builders.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });

function mobileNet(): Model {
  const int8 = parseModel(makeSmallMobileNet());
  dequantize(int8);
  return int8;
}

async function optimizeMobileNet(level: GraphOptimizationLevel): Promise<Model> {
  const changed = mobileNet();
  await optimizeWithRuntime(changed, level);
  return changed;
}

const domainsOf = (model: Model): string[] => [
  ...new Set(
    [...countNonStandardOperators(model).keys()].map((name) =>
      name.slice(0, name.lastIndexOf(".")),
    ),
  ),
];

describe("optimization levels", () => {
  it("basic keeps to ONNX's operators", async () => {
    const basic = await optimizeMobileNet("basic");
    expect(domainsOf(basic)).toEqual([]);
    expect(basic.opsetImport.map(({ domain }) => domain)).toEqual([""]);
  });

  it("extended fuses nodes into ONNX Runtime's own operators, also for the edge's engine, and preserves outputs", async () => {
    const extended = await optimizeMobileNet("extended");
    expect(Object.fromEntries(countNonStandardOperators(extended))).toEqual({
      "com.microsoft.FusedConv": 27,
    });
    expect(
      (await verifyOutputs(runtime, serializeModel(mobileNet()), serializeModel(extended)))
        .problems,
    ).toEqual([]);
    const { sha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
    const session = await createWasmRuntime(
      await loadEngineInNode(ENGINE_FOLDER, sha256),
    ).createSession(serializeModel(extended));
    expect(session.outputs).toMatchObject([{ name: "logits" }]);
    await session.dispose();
  });

  // Without SIMD instructions, ONNX Runtime has no such layout.
  it.runIf(process.arch === "x64")(
    "all lays tensors out for this machine's processor, and therefore not for the edge",
    async () => {
      const all = await optimizeMobileNet("all");
      expect(domainsOf(all)).toContain("com.microsoft.nchwc");
      const { sha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
      await expect(
        createWasmRuntime(await loadEngineInNode(ENGINE_FOLDER, sha256)).createSession(
          serializeModel(all),
        ),
      ).rejects.toThrow(/nchwc/);
    },
  );

  it("rejects models that ONNX Runtime does not open", async () => {
    const broken = model({
      inputs: ["x: float [2]"],
      outputs: ["y: float [2]"],
      nodes: [node("NoSuchOperator x -> y")],
    });
    await expect(optimizeWithRuntime(broken, "basic")).rejects.toMatchObject({
      code: "session_failed",
      detail: expect.stringContaining("NoSuchOperator"),
    });
  });
});

it("all default passes remove redundancy from intent's transformer and preserve its outputs", async () => {
  const bytes = await readFile(
    join(import.meta.dirname, "../../../models/intent/artifacts/region.onnx"),
  );
  const changed = parseModel(bytes);
  const report = await optimize(changed, { runtime });
  expect(report.passes.filter(({ changes }) => changes > 0).map(({ pass }) => pass)).toEqual([
    "remove-identity",
    "dedupe-initializers",
  ]);
  expect(report.after.bytes).toBeLessThan(report.before.bytes);
  const { outputs, problems } = await verifyOutputs(runtime, bytes, serializeModel(changed));
  expect(problems).toEqual([]);
  expect(outputs).toMatchObject([{ maxAbsolute: 0 }]);
});

const CHANNELS = 8;

/** A convolutional network as an exporter writes it, with separate normalizations and biases. */
function exportedNetwork(): Model {
  const draw = (name: string, ...dims: number[]) =>
    floatTensor(
      name,
      Array.from({ length: dims.reduce((product, size) => product * size, 1) }, (_, index) =>
        Math.sin(index * 7 + name.length),
      ),
      dims,
    );
  const positive = (name: string) =>
    floatTensor(
      name,
      Array.from({ length: CHANNELS }, (_, index) => 1 + index),
    );
  return model({
    opset: 13,
    inputs: ["x: float [N, 3, 8, 8]"],
    outputs: ["y: float [N, 4]"],
    constants: [
      draw("w1", CHANNELS, 3, 3, 3),
      draw("scale", CHANNELS),
      draw("shift", CHANNELS),
      draw("mean", CHANNELS),
      positive("variance"),
      draw("w2", CHANNELS, CHANNELS, 1, 1),
      draw("c", CHANNELS, 1, 1),
      draw("w3", CHANNELS, 4),
      draw("b3", 4),
    ],
    nodes: [
      node("Conv x w1 -> c1"),
      node("BatchNormalization c1 scale shift mean variance -> n1", [
        floatAttribute("epsilon", 0.001),
      ]),
      node("Relu n1 -> r1"),
      node("Dropout r1 -> d1"),
      node("Conv d1 w2 -> c2"),
      node("Add c2 c -> a2"),
      node("BatchNormalization a2 scale shift mean variance -> n2"),
      node("Identity n2 -> i2"),
      node("GlobalAveragePool i2 -> p"),
      node("Flatten p -> f"),
      node("MatMul f w3 -> m"),
      node("Add m b3 -> y"),
    ],
  });
}

it("reduces an exported convolutional network to layers with weights and biases", async () => {
  const before = serializeModel(exportedNetwork());
  const changed = parseModel(before);
  await optimize(changed, { runtime });
  expect(changed.graph.node.map(({ opType }) => opType)).toEqual([
    "Conv",
    "Relu",
    "Conv",
    "GlobalAveragePool",
    "Flatten",
    "Gemm",
  ]);
  expect(changed.graph.initializer).toHaveLength(6);
  expect(
    (await verifyOutputs(runtime, before, serializeModel(changed), { tolerance: 1e-5 })).problems,
  ).toEqual([]);
});
