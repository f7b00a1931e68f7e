// Project tiers: reads a model project's files and labels, and creates the preprocessors of its tiers, for evaluations.

import {
  type ClassificationProject,
  isClassificationProject,
  type ModelProject,
} from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { createLazyImageCodecs } from "../../runtime/native/image-codecs.ts";
import { createImageDecoder } from "../../tasks/image/image-decoder.ts";
import { parseLabelFile } from "../../tasks/labels.ts";
import type { Preprocessor, PreprocessorConfig } from "../../tasks/task.ts";
import { getTask } from "../../tasks/tasks.ts";
import { toolchainErrors } from "../errors.ts";

/** Same decoder as in a region (region/server/shared-image-decoder.ts). */
const imageDecoder = createImageDecoder({
  modules: createLazyImageCodecs(),
  maxMemoryBytes: 256 * 1024 * 1024,
});

export type ProjectTier = ClassificationProject["tiers"][number];

/** @throws not_judgeable for a model that returns tensors without labels */
export function requireClassification(project: ModelProject): ClassificationProject {
  if (!isClassificationProject(project))
    throw toolchainErrors.notJudgeable(project.model, project.task);
  return project;
}

/** @throws invalid_project if the project lacks the file */
export function requireProjectFile({ project, files }: PublishSource, path: string): Uint8Array {
  const bytes = files.get(path);
  if (bytes === undefined)
    throw publishingErrors.invalidProject(project.model, [`${path} is missing`]);
  return bytes;
}

/** @throws invalid_project */
export function readProjectLabels(
  source: PublishSource,
  project: ClassificationProject,
): readonly string[] {
  const parsed = parseLabelFile(requireProjectFile(source, project.labels));
  if ("problems" in parsed)
    throw publishingErrors.invalidProject(
      project.model,
      parsed.problems.map((problem) => `${project.labels} ${problem}`),
    );
  return parsed.labels;
}

/** @throws invalid_project */
export function readPreprocessorConfig(
  source: PublishSource,
  { preprocessor }: ProjectTier,
): PreprocessorConfig {
  return "artifact" in preprocessor
    ? { ...preprocessor, artifact: requireProjectFile(source, preprocessor.artifact) }
    : preprocessor;
}

/** @throws invalid_project, preprocessor_invalid */
export function createTierPreprocessor(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
): Preprocessor {
  return getTask(project.task).createPreprocessor(readPreprocessorConfig(source, tier), {
    imageDecoder,
  });
}
