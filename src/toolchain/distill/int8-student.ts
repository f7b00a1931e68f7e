// INT8 students: quantizes a trained student, or fine-tunes it with the rounding of quantization
// (fake-quantize.ts).

import type { Runtime } from "../../runtime/runtime.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { collectHistograms, selectRanges } from "../quantize/activation-ranges.ts";
import type { InputSamples } from "../quantize/capture-activations.ts";
import { quantizeStatic, type ActivationRanges } from "../quantize/static-quantization.ts";
import type { TrainTargets } from "../train/train-network.ts";
import { layerInputNames } from "./student-graph.ts";
import type { Student, StudentTrainOptions } from "./student.ts";

/**
 * Selects the activation ranges with the least squared error.
 * @param samples training samples of the student
 * @throws not_quantizable, session_failed
 */
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
 * Fine-tunes the student in place. The activation ranges stay fixed, and the weights adapt to their
 * quantization steps. Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for
 * Efficient Integer-Arithmetic-Only Inference".
 */
export async function fineTuneForInt8(
  student: Student,
  targets: TrainTargets,
  ranges: ActivationRanges,
  options: Omit<StudentTrainOptions, "hidden">,
): Promise<void> {
  const layerRanges = layerInputNames(student.layers).map((name) => {
    const range = ranges.get(name);
    if (range === undefined) throw new RangeError(`Activation ${name} has no range.`);
    return range;
  });
  await student.train(targets, options, layerRanges);
}
