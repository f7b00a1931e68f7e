// What an imported model is tried with: the samples that were given, or inputs that are made up.

import { readAnswers } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { isClassification } from "../../registry/manifest.ts";
import type { PreprocessorTools } from "../../tasks/task.ts";
import { taskByName } from "../../tasks/tasks.ts";
import { readSamples } from "../judge/samples.ts";
import { madeUpInputs } from "../passes/check.ts";
import type { Imported, ImportTools } from "./import-model.ts";
import { readTensorSamples } from "./tensor-samples.ts";

/** Enough to see that it works; `model eval` runs all. */
const MAX_SAMPLES = 64;
const LIMITS = { maxBytes: 32 * 1024 * 1024 };

export interface ImportSamples {
  readonly forModel: ImportTools["samplesFor"];
  /** After `forModel`. */
  areMadeUp(): boolean;
  /** Of the samples; undefined where they have none. */
  labels(): readonly string[] | undefined;
}

/** @param path of the samples; undefined to make some up @param tools asked for only where there are samples to preprocess */
export function createSamples(
  path: string | undefined,
  tools: () => PreprocessorTools = () => ({}),
): ImportSamples {
  let labels: readonly string[] | undefined;
  return {
    areMadeUp: () => path === undefined,
    labels: () => labels,
    async forModel({ task: name, preprocessor: config }, ports) {
      if (config === undefined)
        return path === undefined
          ? madeUpTensors(ports.inputs)
          : (await readTensorSamples(path, ports, MAX_SAMPLES)).map(({ inputs }) => inputs);
      if (path === undefined && config.kind === "image")
        return madeUpTensors(ports.inputs).slice(0, 2); // of one image each
      const task = taskByName(name);
      const preprocessor = task.createPreprocessor(config, tools());
      if (path === undefined) return [preprocessor.encode([task.example])];
      const samples = await readSamples(path, { task, limits: LIMITS, limit: MAX_SAMPLES });
      labels = samples.map(({ label }) => label);
      return samples.map(({ input }) => preprocessor.encode([input]));
    },
  };
}

/** None for texts: nobody can make those up. */
const madeUpTensors = (specs: Parameters<typeof madeUpInputs>[0]): NamedTensors[] =>
  specs.some(({ datatype }) => datatype === "BYTES") ? [] : madeUpInputs(specs);

/** How many samples got the label that they have; undefined where they have none. */
export function rightAnswers(
  { project, files, answers }: Imported,
  wanted: readonly string[] | undefined,
): number | undefined {
  if (wanted === undefined || !isClassification(project)) return undefined;
  const labels: readonly string[] = JSON.parse(new TextDecoder().decode(files.get(project.labels)));
  const [tier] = project.tiers;
  if (tier === undefined) return undefined;
  return answers.filter(
    (outputs, index) =>
      readAnswers(outputs, 1, labels, tier.calibration, 1)[0]?.label === wanted[index],
  ).length;
}
