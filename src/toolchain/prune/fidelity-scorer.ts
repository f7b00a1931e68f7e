// A judge for sensitivities where there are no labels: how close outputs stay to the original's.

import type { Runtime } from "../../runtime/runtime.ts";
import { ReferenceOutputs } from "../quantize/output-deviation.ts";
import type { InputSamples } from "../quantize/capture-activations.ts";
import type { ModelScorer } from "./sensitivity.ts";

/** 1 less the relative error √(Σ difference² / Σ original²) of the output that it is largest for: 1 where all are the same. @throws session_failed */
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
