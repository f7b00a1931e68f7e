// Scores a pruned graph without labels, by the distance of its outputs from the original's.

import type { Runtime } from "../../runtime/runtime.ts";
import type { InputSamples } from "../quantize/capture-activations.ts";
import { ReferenceOutputs } from "../quantize/output-deviation.ts";
import type { ModelScorer } from "./sensitivity.ts";

/**
 * The score is 1 - max √(Σ difference² / Σ original²) over the outputs, and 1 for identical
 * outputs.
 * @throws session_failed
 */
export async function createFidelityScorer(
  runtime: Runtime,
  original: Uint8Array,
  samples: InputSamples,
): Promise<ModelScorer> {
  const reference = await ReferenceOutputs.record(runtime, original, samples);
  return async (model) => {
    const differences = await reference.compare(runtime, model);
    return (
      1 -
      Math.max(0, ...differences.map(({ sqnrDb }) => (sqnrDb === null ? 0 : 10 ** (-sqnrDb / 20))))
    );
  };
}
