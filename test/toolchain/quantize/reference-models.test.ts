// Models of real size, quantised: how far they are from FP32, and that both runtimes take them.
import { describe, expect, it } from "vitest";
import { loadEngineInNode } from "../../../src/toolchain/engine/load-engine-in-node.ts";
import { prepareEngine } from "../../../src/toolchain/engine/prepare-engine.ts";
import { parseModel } from "../../../src/toolchain/onnx/model-file.ts";
import { ReferenceOutputs } from "../../../src/toolchain/quantize/output-deviation.ts";
import {
  createQuantizer,
  type QuantizeRequest,
} from "../../../src/toolchain/quantize/quantizer.ts";
import { ENGINE_FOLDER } from "../../../src/cli/local/paths.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../../src/core/tensor.ts";
import type { Runtime } from "../../../src/runtime/runtime.ts";
import { createWasmRuntime } from "../../../src/runtime/wasm/wasm-runtime.ts";
import { randomImageInput, intentSampleTexts } from "../../support/reference-models.ts";
import { loadFp32Intent, encodeIntentInputs, loadFp32MobileNet } from "./fp32-reference-models.ts";
import { readFusedOps, largestDifference, runtime } from "./run-model.ts";

/** The engine that the Worker's is cut from. */
async function wasmRuntime() {
  const { sha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
  return createWasmRuntime(await loadEngineInNode(ENGINE_FOLDER, sha256));
}

async function runLogits(where: Runtime, graph: Uint8Array, inputs: NamedTensors) {
  const session = await where.createSession(graph);
  const { logits } = await session.run(inputs);
  await session.dispose();
  return expectFloat32Tensor("logits", logits, 2).data;
}

const encodeImages = (first: number, count: number) =>
  Array.from({ length: count }, (_, index) => randomImageInput(first + index));
const quantizeMobileNet = async (request: Omit<QuantizeRequest, "mode">) => {
  const { quantize: make, fp32Graph: original } = await createQuantizer(
    runtime,
    loadFp32MobileNet(),
    {
      mode: "static",
      samples: encodeImages(100, 16),
      ...request,
    },
  );
  const made = await make();
  const [difference] = await (
    await ReferenceOutputs.record(runtime, original, encodeImages(0, 40))
  ).compare(runtime, made.graph);
  return { ...made, difference };
};

describe("a MobileNet, logits up to 9", () => {
  it("is integers from end to end, and close to FP32", async () => {
    const { graph, kept, difference } = await quantizeMobileNet({});
    expect(kept).toEqual([]);
    const ops = await readFusedOps(parseModel(graph));
    const count = (...wanted: readonly string[]) => ops.filter((op) => wanted.includes(op)).length;
    expect([
      count("QLinearConv"),
      count("QLinearGlobalAveragePool"),
      count("MatMulIntegerToFloat"),
    ]).toEqual([27, 1, 1]);
    // Around the image's own range, and that of the average.
    expect([count("Conv", "FusedConv", "MatMul"), count("Clip"), count("QuantizeLinear")]).toEqual([
      0, 2, 2,
    ]);
    expect(difference?.sqnrDb).toBeGreaterThan(20);
    expect(difference?.argmaxAgreement).toBeGreaterThan(0.9);
  });

  it.each<[string, Omit<QuantizeRequest, "mode">]>([
    ["percentile", { rangeMethod: { kind: "percentile" } }],
    ["entropy", { rangeMethod: { kind: "entropy" } }],
    ["signed activations", { activations: "int8" }],
    ["affine weights", { weights: "uint8" }],
    ["corrected biases", { correctBiases: true }],
  ])("holds with %s", async (_, request) => {
    expect((await quantizeMobileNet(request)).difference?.sqnrDb).toBeGreaterThan(17);
  });

  it("gives the same in WebAssembly, and is the same bytes each time", async () => {
    const { graph } = await quantizeMobileNet({});
    expect(Buffer.from((await quantizeMobileNet({})).graph).equals(graph)).toBe(true);
    const one = randomImageInput(7);
    expect(
      largestDifference(
        await runLogits(runtime, graph, one),
        await runLogits(await wasmRuntime(), graph, one),
      ),
    ).toBeLessThan(0.5);
  });
});

describe("intent's region tier, logits up to 17", () => {
  it.each([
    ["static", 14],
    ["dynamic", 20],
  ] as const)("in %s quantisation keeps its classes", async (mode, sqnrDb) => {
    const inputs = await encodeIntentInputs(intentSampleTexts.slice(0, 48));
    const { quantize: make, fp32Graph: original } = await createQuantizer(
      runtime,
      await loadFp32Intent(),
      {
        mode,
        samples: inputs.slice(0, 16),
      },
    );
    const { graph, layers } = await make();
    expect(layers.filter(({ op }) => op === "MatMul")).toHaveLength(21);
    expect(graph.byteLength).toBeLessThan(0.5 * original.byteLength);
    const [difference] = await (
      await ReferenceOutputs.record(runtime, original, inputs.slice(16))
    ).compare(runtime, graph);
    expect(difference?.sqnrDb).toBeGreaterThan(sqnrDb);
    expect(difference?.argmaxAgreement).toBeGreaterThan(0.95);
  });
});
