// A graph in ONNX Runtime's own format, which its builds for phones read, those without ONNX's parser too.
// https://onnxruntime.ai/docs/performance/model-optimizations/ort-format-models.html

import { env } from "onnxruntime-node";
import { expectFloat32Tensor } from "../../core/tensor.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { createWarmUpInputs } from "../engine/synthetic-inputs.ts";
import { optimizeBytes } from "../passes/runtime-optimization.ts";

export const ONNX_RUNTIME_VERSION: string = env.versions.node ?? env.versions.common;

/** `extended` fuses into ONNX Runtime's own operators, and keeps to what every processor runs; `all` would lay tensors out for this one. @throws session_failed */
export const convertToOrtFormat = (onnx: Uint8Array): Promise<Uint8Array> =>
  optimizeBytes(onnx, "extended", "ort");

/** The largest difference between an output's numbers, as a share of their largest magnitude. @throws session_failed where one does not run */
export async function measureLargestDifference(
  onnx: Uint8Array,
  ort: Uint8Array,
  output: string,
): Promise<number> {
  const runtime = createNativeRuntime();
  await using sessions = new AsyncDisposableStack();
  const open = async (bytes: Uint8Array) =>
    sessions.adopt(await runtime.createSession(bytes), (session) => session.dispose());
  const [before, after] = [await open(onnx), await open(ort)];
  let largest = 0;
  let difference = 0;
  for (const inputs of createWarmUpInputs(before.inputs)) {
    const expected = expectFloat32Tensor(output, (await before.run(inputs))[output], 2).data;
    const found = expectFloat32Tensor(output, (await after.run(inputs))[output], 2).data;
    expected.forEach((value, index) => {
      largest = Math.max(largest, Math.abs(value));
      difference = Math.max(
        difference,
        Math.abs(value - (found[index] ?? Number.POSITIVE_INFINITY)),
      );
    });
  }
  return largest === 0 ? difference : difference / largest;
}
