// Teacher for texts: runs the preprocessor and graph of a project's tier in onnxruntime-node.

import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { expectFloat32Tensor } from "../../core/tensor.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { PreprocessorConfig, TaskInput } from "../../tasks/task.ts";
import { getTask } from "../../tasks/tasks.ts";
import { tokenizerJsonSchema } from "../../tasks/text/wordpiece.ts";
import {
  requireProjectFile,
  readProjectLabels,
  readPreprocessorConfig,
  createTierPreprocessor,
  type ProjectTier,
} from "../evaluate/project-tier.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import type { Teacher } from "./teacher.ts";

export interface TextTeacher extends Teacher<TaskInput> {
  /** Words that are single pieces of the teacher's vocabulary; empty without a vocabulary. */
  readonly vocabularyWords: readonly string[];
}

/** @returns a teacher that the caller closes @throws invalid_project, session_failed */
export async function openTextTierAsTeacher(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
): Promise<TextTeacher & { close(): Promise<void> }> {
  const preprocessor = createTierPreprocessor(source, project, tier);
  const { encodeInput } = getTask(project.task);
  const outputs = readProjectLabels(source, project).length;
  const graph = requireProjectFile(source, tier.graph);
  const session = await createNativeRuntime().createSession(graph);
  // A graph may declare a batch of one row.
  const hasVariableBatch = session.inputs.every(({ shape }) => shape[0] === -1);

  async function computeLogits(inputs: readonly TaskInput[]): Promise<Float32Array> {
    const { data, shape } = expectFloat32Tensor(
      LOGITS_OUTPUT,
      (await session.run(preprocessor.encode(inputs)))[LOGITS_OUTPUT],
      2,
    );
    if (shape[0] !== inputs.length || shape[1] !== outputs)
      throw coreErrors.sessionFailed(
        `logits have shape [${shape.join(", ")}], expected [${inputs.length}, ${outputs}]`,
      );
    return data;
  }

  return {
    digest: sha256HexSync(
      graph,
      JSON.stringify(readPreprocessorConfig(source, tier), (_, value: unknown) =>
        value instanceof Uint8Array ? sha256HexSync(value) : value,
      ),
    ),
    outputs,
    vocabularyWords: readVocabularyWords(readPreprocessorConfig(source, tier)),
    encodeInput,
    async predict(inputs) {
      if (hasVariableBatch) return await computeLogits(inputs);
      const logits = new Float32Array(inputs.length * outputs);
      for (const [position, input] of inputs.entries())
        logits.set(await computeLogits([input]), position * outputs);
      return logits;
    },
    close: () => session.dispose(),
  };
}

/** Selects whole lowercase words, without special tokens. */
function readVocabularyWords(config: PreprocessorConfig): string[] {
  if (config.kind !== "wordpiece") return [];
  const { model } = tokenizerJsonSchema.parse(
    JSON.parse(new TextDecoder().decode(config.artifact)),
  );
  return Object.keys(model.vocab).filter((piece) => /^\p{Ll}{3,}$/u.test(piece));
}
