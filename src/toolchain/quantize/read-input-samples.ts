// Reads samples for a graph from a NumPy array, or from the formats of `model import`.

import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import { readTensorSamples } from "../import/tensor-samples.ts";
import { readNpySamples } from "./npy-samples.ts";

/**
 * The file is read again for each iteration.
 * @param path `.npy` file for a graph with one input, or a path for `readTensorSamples`
 * @throws invalid_tensor_samples during iteration
 */
export function readInputSamples(
  path: string,
  specs: readonly TensorSpec[],
  limit = Number.POSITIVE_INFINITY,
): AsyncIterable<NamedTensors> {
  if (path.endsWith(".npy")) return readNpySamples(path, specs, limit);
  return {
    async *[Symbol.asyncIterator]() {
      for (const { inputs } of await readTensorSamples(path, { inputs: specs, outputs: [] }, limit))
        yield inputs;
    },
  };
}
