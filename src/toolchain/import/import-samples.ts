// What an imported model is tried with: the samples that were given, or inputs that are made up.

import { decodePredictions } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { isClassificationProject } from "../../registry/manifest.ts";
import type { PreprocessorDependencies } from "../../tasks/task.ts";
import { getTask } from "../../tasks/tasks.ts";
import { readSamples } from "../evaluate/labeled-samples.ts";
import { generateInputs } from "../passes/verify-outputs.ts";
import type { ImportResult, ImportContext } from "./import-model.ts";
import { readTensorSamples } from "./tensor-samples.ts";

/** Enough to see that it works; `model eval` runs all. */
const MAX_SAMPLES = 64;
const LIMITS = { maxBytes: 32 * 1024 * 1024 };

export interface ImportSamples {
  readonly load: ImportContext["loadSamples"];
  /** After `forModel`. */
  areGenerated(): boolean;
  /** Of the samples; undefined where they have none. */
  labels(): readonly string[] | undefined;
}

/** @param path of the samples; undefined to make some up @param tools asked for only where there are samples to preprocess */
export function createImportSamples(
  path: string | undefined,
  tools: () => PreprocessorDependencies = () => ({}),
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
        return generateNumericInputs(ports.inputs).slice(0, 2); // of one image each
      const task = getTask(name);
      const preprocessor = task.createPreprocessor(config, tools());
      if (path === undefined) return [preprocessor.encode([task.exampleInput])];
      const samples = await readSamples(path, { task, limits: LIMITS, limit: MAX_SAMPLES });
      labels = samples.map(({ label }) => label);
      return samples.map(({ input }) => preprocessor.encode([input]));
    },
  };
}

/** None for texts: nobody can make those up. */
const generateNumericInputs = (specs: Parameters<typeof generateInputs>[0]): NamedTensors[] =>
  specs.some(({ datatype }) => datatype === "BYTES") ? [] : generateInputs(specs);

/** How many samples got the label that they have; undefined where they have none. */
export function countCorrect(
  { project, files, sampleOutputs: answers }: ImportResult,
  wanted: readonly string[] | undefined,
): number | undefined {
  if (wanted === undefined || !isClassificationProject(project)) return undefined;
  const labels: readonly string[] = JSON.parse(new TextDecoder().decode(files.get(project.labels)));
  const [tier] = project.tiers;
  if (tier === undefined) return undefined;
  return answers.filter(
    (outputs, index) =>
      decodePredictions(outputs, 1, labels, tier.calibration, 1)[0]?.label === wanted[index],
  ).length;
}
