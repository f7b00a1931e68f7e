// Default tier of a model, and the inputs that a region accepts for it: the task's own inputs, or the graph's tensors.

import type { TensorSpec } from "../../core/tensor.ts";
import type { Manifest, TierManifest } from "../../registry/manifest.ts";
import { TASK_INPUT_NAME } from "../../tasks/task.ts";
import type { LoadedRegionModel, LoadedRegionTier } from "./load-region-model.ts";

/** Task inputs; each element is one input. */
export const TASK_INPUTS: readonly TensorSpec[] = [
  { name: TASK_INPUT_NAME, datatype: "BYTES", shape: [-1] },
];

/** Returns the inputs that the model's metadata declares. */
export function declaredInputsOf({ task }: Manifest, tier: TierManifest): readonly TensorSpec[] {
  return task === "tensor" ? tier.inputs : TASK_INPUTS;
}

/** Returns the last tier of the cascade. */
export function defaultTierOf({ tiers: [first, ...others] }: LoadedRegionModel): LoadedRegionTier {
  return others.at(-1) ?? first;
}
