// Loads the inputs of an imported model's trial: the given samples, or generated inputs.

import { decodePredictions } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { isClassificationProject } from "../../registry/manifest.ts";
import type { PreprocessorDependencies } from "../../tasks/task.ts";
import { getTask } from "../../tasks/tasks.ts";
import { readSamples } from "../evaluate/labeled-samples.ts";
import { generateInputs } from "../passes/verify-outputs.ts";
import type { ImportResult, ImportContext } from "./import-model.ts";
import { readTensorSamples } from "./tensor-samples.ts";

/** Sufficient to verify that the model works; `model eval` runs all samples. */
const MAX_SAMPLES = 64;
const LIMITS = { maxBytes: 32 * 1024 * 1024 };

export interface ImportSamples {
  readonly load: ImportContext["loadSamples"];
  /** Valid after `load`. */
  areGenerated(): boolean;
  /** Labels of the samples; undefined if they have none. */
  labels(): readonly string[] | undefined;
}

/**
 * @param path path of the samples; undefined to generate inputs
 * @param dependencies called only if samples need preprocessing
 */
export function createImportSamples(
  path: string | undefined,
  dependencies: () => PreprocessorDependencies = () => ({}),
): ImportSamples {
  let labels: readonly string[] | undefined;
  return {
    areGenerated: () => path === undefined,
    labels: () => labels,
    async load({ task: name, preprocessor: config }, ports) {
      if (config === undefined)
        return path === undefined
          ? generateNumericInputs(ports.inputs)
          : (await readTensorSamples(path, ports, MAX_SAMPLES)).map(({ inputs }) => inputs);
      if (path === undefined && config.kind === "image")
        // Each generated image is a batch of one.
        return generateNumericInputs(ports.inputs).slice(0, 2);
      const task = getTask(name);
      const preprocessor = task.createPreprocessor(config, dependencies());
      if (path === undefined) return [preprocessor.encode([task.exampleInput])];
      const samples = await readSamples(path, { task, limits: LIMITS, limit: MAX_SAMPLES });
      labels = samples.map(({ label }) => label);
      return samples.map(({ input }) => preprocessor.encode([input]));
    },
  };
}

/** Returns no inputs for text tensors, because texts cannot be generated. */
const generateNumericInputs = (specs: Parameters<typeof generateInputs>[0]): NamedTensors[] =>
  specs.some(({ datatype }) => datatype === "BYTES") ? [] : generateInputs(specs);

/** Counts the samples with the expected label. Returns undefined if the samples have no labels. */
export function countCorrect(
  { project, files, sampleOutputs }: ImportResult,
  expectedLabels: readonly string[] | undefined,
): number | undefined {
  if (expectedLabels === undefined || !isClassificationProject(project)) return undefined;
  const labels: readonly string[] = JSON.parse(new TextDecoder().decode(files.get(project.labels)));
  const [tier] = project.tiers;
  if (tier === undefined) return undefined;
  return sampleOutputs.filter(
    (outputs, index) =>
      decodePredictions(outputs, 1, labels, tier.calibration, 1)[0]?.label ===
      expectedLabels[index],
  ).length;
}
