// Runs a graph with values from within it as further outputs.

import { coreErrors } from "../../core/common-errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { extractSubgraph } from "../onnx/extract-subgraph.ts";
import { type Model, serializeModel } from "../onnx/model-file.ts";
import { selectInputs } from "../select-inputs.ts";

/** What a graph is run on: one run's inputs each. It may be gone through several times. */
export type InputSamples = Iterable<NamedTensors> | AsyncIterable<NamedTensors>;

/** FP32 numbers by the names of the values. They are of one run, and not kept. */
export type CapturedActivations = ReadonlyMap<
  string,
  { readonly data: Float32Array; readonly shape: readonly number[] }
>;

/**
 * @param names of FP32 values of the graph, its own inputs among them
 * @param onSample is awaited; samples are run one by one, so that no more than one run's values are held
 * @returns how many samples there were
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
      `value ${name} is ${tensor?.datatype ?? "not there"}, and not FP32`,
    );
  return tensor;
}

/** Only what makes these values is left. */
function extractProducers(model: Model, names: readonly string[]): Model {
  const inputs = new Set(model.graph.input.map(({ name }) => name));
  const outputs = [...new Set(names)].filter((name) => !inputs.has(name));
  return outputs.length === 0 ? model : extractSubgraph(model, { outputs });
}
