// Samples of a graph from what a user has: a NumPy array, or the forms of `model import`.

import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import { readTensorSamples } from "../import/tensor-samples.ts";
import { readNpySamples } from "./npy-samples.ts";

/**
 * Read when they are gone through, each time anew.
 * @param path `.npy`, for a graph with one input; otherwise as `readTensorSamples` has it
 * @throws invalid_tensor_samples when they are read
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
