// Students in INT8: quantised after training, or trained on with their numbers rounded as quantisation will round them.

import type { Runtime } from "../../runtime/runtime.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { collectHistograms, selectRanges } from "../quantize/activation-ranges.ts";
import type { InputSamples } from "../quantize/capture-activations.ts";
import { quantizeStatic, type ActivationRanges } from "../quantize/static-quantization.ts";
import type { TrainTargets } from "../train/train-network.ts";
import type { Student, StudentTrainOptions } from "./student.ts";
import { layerInputNames } from "./student-graph.ts";

/** Ranges of activations, with the least error of what they round. @param samples that the student has learnt @throws not_quantizable, session_failed */
export async function findActivationRanges(
  runtime: Runtime,
  model: Model,
  samples: InputSamples,
): Promise<ActivationRanges> {
  const copy = parseModel(serializeModel(model));
  return selectRanges(copy, await collectHistograms(runtime, copy, samples), { kind: "mse" });
}

/** @throws not_quantizable */
export function quantizeStudent(model: Model, ranges: ActivationRanges): Uint8Array {
  const copy = parseModel(serializeModel(model));
  quantizeStatic(copy, ranges);
  return serializeModel(copy);
}

/**
 * Trains the student on, and changes it: activations keep their ranges, and weights get used to their steps.
 * Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference".
 */
export async function fineTuneForInt8(
  student: Student,
  targets: TrainTargets,
  ranges: ActivationRanges,
  options: Omit<StudentTrainOptions, "hidden">,
): Promise<void> {
  const ofLayers = layerInputNames(student.layers).map((name) => {
    const range = ranges.get(name);
    if (range === undefined) throw new RangeError(`there is no range of ${name}`);
    return range;
  });
  await student.train(targets, options, ofLayers);
}
