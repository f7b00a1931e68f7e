// Runs a graph and captures intermediate values as additional outputs.

import { coreErrors } from "../../core/common-errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { extractSubgraph } from "../onnx/extract-subgraph.ts";
import { type Model, serializeModel } from "../onnx/model-file.ts";
import { selectInputs } from "../select-inputs.ts";

/** Inputs for repeated runs of a graph. Each iteration may start from the beginning. */
export type InputSamples = Iterable<NamedTensors> | AsyncIterable<NamedTensors>;

/** FP32 values by name. They belong to one run and are not retained. */
export type CapturedActivations = ReadonlyMap<
  string,
  { readonly data: Float32Array; readonly shape: readonly number[] }
>;

/**
 * @param names names of FP32 values of the graph, which may include its inputs
 * @param onSample called after each run; samples run one at a time, so only one run's values are in
 * memory
 * @returns the number of samples
 * @throws session_failed
 */
export async function captureActivations(
  runtime: Runtime,
  model: Model,
  names: readonly string[],
  samples: InputSamples,
  onSample: (observed: CapturedActivations) => void,
): Promise<number> {
  const session = await runtime.createSession(serializeModel(extractProducers(model, names)));
  try {
    let count = 0;
    for await (const inputs of samples) {
      const outputs = await session.run(selectInputs(session, inputs));
      onSample(
        new Map(names.map((name) => [name, requireFloats(name, outputs[name] ?? inputs[name])])),
      );
      count++;
    }
    return count;
  } finally {
    await session.dispose();
  }
}

function requireFloats(
  name: string,
  tensor: NamedTensors[string] | undefined,
): { readonly data: Float32Array; readonly shape: readonly number[] } {
  if (tensor?.datatype !== "FP32")
    throw coreErrors.sessionFailed(
      `value ${name} is ${tensor?.datatype ?? "missing"}; expected FP32`,
    );
  return tensor;
}

/** Extracts the part of the model that produces the values. */
function extractProducers(model: Model, names: readonly string[]): Model {
  const inputs = new Set(model.graph.input.map(({ name }) => name));
  const outputs = [...new Set(names)].filter((name) => !inputs.has(name));
  return outputs.length === 0 ? model : extractSubgraph(model, { outputs });
}
