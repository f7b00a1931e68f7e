// Tests quantized models of real size: their deviation from FP32, and that both runtimes run them.
import { describe, expect, it } from "vitest";
import { ENGINE_FOLDER } from "../../../src/cli/local/paths.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../../src/core/tensor.ts";
import type { Runtime } from "../../../src/runtime/runtime.ts";
import { createWasmRuntime } from "../../../src/runtime/wasm/wasm-runtime.ts";
import { loadEngineInNode } from "../../../src/toolchain/engine/load-engine-in-node.ts";
import { prepareEngine } from "../../../src/toolchain/engine/prepare-engine.ts";
import { parseModel } from "../../../src/toolchain/onnx/model-file.ts";
import { ReferenceOutputs } from "../../../src/toolchain/quantize/output-deviation.ts";
import {
  createQuantizer,
  type QuantizeRequest,
} from "../../../src/toolchain/quantize/quantizer.ts";
import { randomImageInput, intentSampleTexts } from "../../support/reference-models.ts";
import { loadFp32Intent, encodeIntentInputs, loadFp32MobileNet } from "./fp32-reference-models.ts";
import { readFusedOps, largestDifference, runtime } from "./run-model.ts";

/** Loads the engine that the Worker's engine is stripped from. */
async function wasmRuntime() {
  const { sha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
  return createWasmRuntime(await loadEngineInNode(ENGINE_FOLDER, sha256));
}

async function runLogits(executor: Runtime, graph: Uint8Array, inputs: NamedTensors) {
  const session = await executor.createSession(graph);
  const { logits } = await session.run(inputs);
  await session.dispose();
  return expectFloat32Tensor("logits", logits, 2).data;
}

const encodeImages = (first: number, count: number) =>
  Array.from({ length: count }, (_, index) => randomImageInput(first + index));
const quantizeMobileNet = async (request: Omit<QuantizeRequest, "mode">) => {
  const { quantize, fp32Graph } = await createQuantizer(runtime, loadFp32MobileNet(), {
    mode: "static",
    samples: encodeImages(100, 16),
    ...request,
  });
  const quantized = await quantize();
  const [difference] = await (
    await ReferenceOutputs.record(runtime, fp32Graph, encodeImages(0, 40))
  ).compare(runtime, quantized.graph);
  return { ...quantized, difference };
};

describe("a MobileNet, logits up to 9", () => {
  it("runs in integers from end to end, and close to FP32", async () => {
    const { graph, kept, difference } = await quantizeMobileNet({});
    expect(kept).toEqual([]);
    const ops = await readFusedOps(parseModel(graph));
    const count = (...names: readonly string[]) => ops.filter((op) => names.includes(op)).length;
    expect({
      convolutions: count("QLinearConv"),
      pools: count("QLinearGlobalAveragePool"),
      products: count("MatMulIntegerToFloat"),
      fp32Layers: count("Conv", "FusedConv", "MatMul"),
      clips: count("Clip"),
      quantizations: count("QuantizeLinear"),
    }).toEqual({
      convolutions: 27,
      pools: 1,
      products: 1,
      fp32Layers: 0,
      // These surround the range of the image itself, and of the average.
      clips: 2,
      quantizations: 2,
    });
    expect(difference?.sqnrDb).toBeGreaterThan(20);
    expect(difference?.argmaxAgreement).toBeGreaterThan(0.9);
  });

  it.each<[string, Omit<QuantizeRequest, "mode">]>([
    ["percentile", { rangeMethod: { kind: "percentile" } }],
    ["entropy", { rangeMethod: { kind: "entropy" } }],
    ["signed activations", { activations: "int8" }],
    ["affine weights", { weights: "uint8" }],
    ["corrected biases", { correctBiases: true }],
  ])("remains close to FP32 with %s", async (_, request) => {
    expect((await quantizeMobileNet(request)).difference?.sqnrDb).toBeGreaterThan(17);
  });

  it("has the same outputs in WebAssembly, and is deterministic", async () => {
    const { graph } = await quantizeMobileNet({});
    expect(Buffer.from((await quantizeMobileNet({})).graph).equals(graph)).toBe(true);
    const image = randomImageInput(7);
    expect(
      largestDifference(
        await runLogits(runtime, graph, image),
        await runLogits(await wasmRuntime(), graph, image),
      ),
    ).toBeLessThan(0.5);
  });
});

describe("intent's region tier, logits up to 17", () => {
  it.each([
    ["static", 14],
    ["dynamic", 20],
  ] as const)("keeps its classes in %s quantization", async (mode, sqnrDb) => {
    const inputs = await encodeIntentInputs(intentSampleTexts.slice(0, 48));
    const { quantize, fp32Graph } = await createQuantizer(runtime, await loadFp32Intent(), {
      mode,
      samples: inputs.slice(0, 16),
    });
    const { graph, layers } = await quantize();
    expect(layers.filter(({ op }) => op === "MatMul")).toHaveLength(21);
    expect(graph.byteLength).toBeLessThan(0.5 * fp32Graph.byteLength);
    const [difference] = await (
      await ReferenceOutputs.record(runtime, fp32Graph, inputs.slice(16))
    ).compare(runtime, graph);
    expect(difference?.sqnrDb).toBeGreaterThan(sqnrDb);
    expect(difference?.argmaxAgreement).toBeGreaterThan(0.95);
  });
});
