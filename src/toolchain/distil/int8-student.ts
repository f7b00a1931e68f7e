// Students in INT8: quantised after training, or trained on with their numbers rounded as quantisation will round them.

import type { Runtime } from "../../runtime/runtime.ts";
import { type Model, readModel, writeModel } from "../onnx/model-file.ts";
import { collectStatistics, rangesOf } from "../quantise/calibrate.ts";
import type { Samples } from "../quantise/observe.ts";
import { quantiseStatic, type Ranges } from "../quantise/static.ts";
import type { Targets } from "../train/train-network.ts";
import type { Student, StudentOptions } from "./student.ts";
import { layerInputs } from "./student-graph.ts";

/** Ranges of activations, with the least error of what they round. @param samples that the student has learnt @throws not_quantisable, session_failed */
export async function findRanges(
  runtime: Runtime,
  model: Model,
  samples: Samples,
): Promise<Ranges> {
  const copy = readModel(writeModel(model));
  return rangesOf(copy, await collectStatistics(runtime, copy, samples), { method: "mse" });
}

/** @throws not_quantisable */
export function quantised(model: Model, ranges: Ranges): Uint8Array {
  const copy = readModel(writeModel(model));
  quantiseStatic(copy, ranges);
  return writeModel(copy);
}

/**
 * Trains the student on, and changes it: activations keep their ranges, and weights get used to their steps.
 * Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference".
 */
export async function fineTuneForInt8(
  student: Student,
  targets: Targets,
  ranges: Ranges,
  options: Omit<StudentOptions, "hidden">,
): Promise<void> {
  const ofLayers = layerInputs(student.layers).map((name) => {
    const range = ranges.get(name);
    if (range === undefined) throw new RangeError(`there is no range of ${name}`);
    return range;
  });
  await student.train(targets, options, ofLayers);
}
