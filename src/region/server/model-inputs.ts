// Which tier of a model answers by default, and what a region takes for it: the task's own inputs, or the graph's tensors.

import type { TensorSpec } from "../../core/tensor.ts";
import type { Manifest, TierManifest } from "../../registry/manifest.ts";
import { TASK_INPUT_NAME } from "../../tasks/task.ts";
import type { LoadedRegionModel, LoadedRegionTier } from "./load-region-model.ts";

/** The task's own inputs: one element each. */
export const TASK_INPUTS: readonly TensorSpec[] = [
  { name: TASK_INPUT_NAME, datatype: "BYTES", shape: [-1] },
];

/** What its metadata says. */
export function declaredInputsOf({ task }: Manifest, tier: TierManifest): readonly TensorSpec[] {
  return task === "tensor" ? tier.inputs : TASK_INPUTS;
}

/** The last of the cascade. */
export function defaultTierOf({ tiers: [first, ...others] }: LoadedRegionModel): LoadedRegionTier {
  return others.at(-1) ?? first;
}
