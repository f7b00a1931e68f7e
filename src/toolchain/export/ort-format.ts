// ORT format: converts a graph to ONNX Runtime's own format. Its mobile builds read it, including those without an ONNX
// parser. https://onnxruntime.ai/docs/performance/model-optimizations/ort-format-models.html

import { env } from "onnxruntime-node";
import { expectFloat32Tensor } from "../../core/tensor.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { createWarmUpInputs } from "../engine/synthetic-inputs.ts";
import { optimizeBytes } from "../passes/runtime-optimization.ts";

export const ONNX_RUNTIME_VERSION: string = env.versions.node ?? env.versions.common;

/**
 * Optimizes at level `extended`, which fuses into ONNX Runtime's own operators and runs on every processor. The level
 * `all` would lay out tensors for this processor.
 * @throws session_failed
 */
export const convertToOrtFormat = (onnx: Uint8Array): Promise<Uint8Array> =>
  optimizeBytes(onnx, "extended", "ort");

/**
 * Runs both graphs on synthetic inputs and compares an output.
 * @returns the largest difference, as a share of the output's largest magnitude
 * @throws session_failed if a graph does not run
 */
export async function measureLargestDifference(
  onnx: Uint8Array,
  ort: Uint8Array,
  output: string,
): Promise<number> {
  const runtime = createNativeRuntime();
  await using sessions = new AsyncDisposableStack();
  const open = async (bytes: Uint8Array) =>
    sessions.adopt(await runtime.createSession(bytes), (session) => session.dispose());
  const [original, converted] = [await open(onnx), await open(ort)];
  let largestMagnitude = 0;
  let largestDifference = 0;
  for (const inputs of createWarmUpInputs(original.inputs)) {
    const expected = expectFloat32Tensor(output, (await original.run(inputs))[output], 2).data;
    const actual = expectFloat32Tensor(output, (await converted.run(inputs))[output], 2).data;
    expected.forEach((value, index) => {
      const difference = Math.abs(value - (actual[index] ?? Number.POSITIVE_INFINITY));
      largestMagnitude = Math.max(largestMagnitude, Math.abs(value));
      largestDifference = Math.max(largestDifference, difference);
    });
  }
  return largestMagnitude === 0 ? largestDifference : largestDifference / largestMagnitude;
}
