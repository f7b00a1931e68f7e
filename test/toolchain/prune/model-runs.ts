import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
// Runs models in onnxruntime-node on random inputs.
import { createWarmUpInputs } from "../../../src/toolchain/engine/synthetic-inputs.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { toTensor } from "../../../src/toolchain/onnx/tensor-conversion.ts";
import { measureShapes, type TensorShapes } from "../../../src/toolchain/prune/measure-shapes.ts";

export const runtime = createNativeRuntime({ intraOpThreads: 1 });

export const cloneModel = (model: Model): Model => parseModel(serializeModel(model));

/**
 * Creates the inputs of a request with batch size 1, and of a larger batch if the model supports
 * it.
 */
export async function createInputs(model: Model): Promise<NamedTensors[]> {
  const session = await runtime.createSession(serializeModel(model));
  const { inputs } = session;
  await session.dispose();
  return createWarmUpInputs(inputs);
}

export async function measureModelShapes(model: Model): Promise<TensorShapes> {
  const [inputs = {}] = await createInputs(model);
  return await measureShapes(runtime, model, inputs);
}

export async function runModel(
  model: Model,
  inputs: readonly NamedTensors[],
): Promise<NamedTensors[]> {
  const session = await runtime.createSession(serializeModel(model));
  try {
    const outputs: NamedTensors[] = [];
    for (const tensors of inputs) outputs.push(await session.run(tensors));
    return outputs;
  } finally {
    await session.dispose();
  }
}

/**
 * Returns the largest difference of two models' outputs, relative to the largest value; infinite
 * for different shapes.
 */
export async function measureDifference(before: Model, after: Model): Promise<number> {
  const inputs = await createInputs(before);
  const [expected, actual] = [await runModel(before, inputs), await runModel(after, inputs)];
  let [largest, difference] = [0, 0];
  for (const [position, outputs] of expected.entries()) {
    for (const [name, tensor] of Object.entries(outputs)) {
      const other = actual[position]?.[name];
      const [values, otherValues] = [
        Array.from(tensor.data, Number),
        Array.from(other?.data ?? [], Number),
      ];
      if (String(tensor.shape) !== String(other?.shape)) return Number.POSITIVE_INFINITY;
      values.forEach((value, index) => {
        largest = Math.max(largest, Math.abs(value));
        difference = Math.max(difference, Math.abs(value - (otherValues[index] ?? Number.NaN)));
      });
    }
  }
  return difference / Math.max(1, largest);
}

/** Dimensions and values of constants by name. */
export const constantsOf = ({ graph }: Model): Record<string, { dims: number[]; data: number[] }> =>
  Object.fromEntries(
    graph.initializer.map((tensor) => [
      tensor.name,
      { dims: tensor.dims.map(Number), data: Array.from(toTensor(tensor)?.data ?? [], Number) },
    ]),
  );

export const dimsOf = (model: Model): Record<string, number[]> =>
  Object.fromEntries(Object.entries(constantsOf(model)).map(([name, { dims }]) => [name, dims]));
