// Runs small graphs, and lists the operators that ONNX Runtime executes.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InferenceSession } from "onnxruntime-node";
import { expectFloat32Tensor, type NamedTensors, type TensorOf } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";

export const runtime = createNativeRuntime({ intraOpThreads: 1 });

export const cloneModel = (model: Model): Model => parseModel(serializeModel(model));

export const fp32Tensor = (
  shape: readonly number[],
  data: ArrayLike<number>,
): TensorOf<"FP32"> => ({
  datatype: "FP32",
  shape,
  data: Float32Array.from(data),
});

/** Draws numbers from -1 to 1. */
export function randomFp32Tensor(shape: readonly number[], seed: number): TensorOf<"FP32"> {
  const next = seededRandom(seed);
  return fp32Tensor(
    shape,
    Array.from(
      { length: shape.reduce((product, size) => product * size, 1) },
      () => 2 * next() - 1,
    ),
  );
}

/** Runs the model and returns its output `y`. */
export async function runModel(model: Model, inputs: NamedTensors): Promise<Float32Array> {
  const session = await runtime.createSession(serializeModel(model));
  const { y } = await session.run(inputs);
  await session.dispose();
  return expectFloat32Tensor("y", y, y?.shape.length ?? 0).data;
}

export const largestDifference = (first: Float32Array, second: Float32Array): number =>
  first.reduce(
    (largest, value, index) => Math.max(largest, Math.abs(value - (second[index] ?? Number.NaN))),
    0,
  );

/** Describes each node by its operator, inputs and outputs. */
export const describeNodes = ({ graph }: Model): string[] =>
  graph.node.map((node) => `${node.opType} ${node.input.join(" ")} -> ${node.output.join(" ")}`);

/** Lists the operators that ONNX Runtime runs on this CPU, after all fusions. */
export async function readFusedOps(model: Model): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-fused-"));
  try {
    const path = join(folder, "fused.onnx");
    const session = await InferenceSession.create(serializeModel(model), {
      optimizedModelFilePath: path,
      graphOptimizationLevel: "all",
      logSeverityLevel: 4,
    });
    await session.release();
    return parseModel(await readFile(path)).graph.node.map(({ opType }) => opType);
  } finally {
    await rm(folder, { recursive: true });
  }
}
