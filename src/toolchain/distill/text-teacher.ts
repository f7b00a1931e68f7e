// A tier of a project as a teacher: its preprocessor and its graph, run by onnxruntime-node.

import { coreErrors } from "../../core/common-errors.ts";
import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { expectFloat32Tensor } from "../../core/tensor.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { PreprocessorConfig, TaskInput } from "../../tasks/task.ts";
import { getTask } from "../../tasks/tasks.ts";
import { tokenizerJsonSchema } from "../../tasks/text/wordpiece.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import {
  requireProjectFile,
  readProjectLabels,
  readPreprocessorConfig,
  createTierPreprocessor,
  type ProjectTier,
} from "../evaluate/project-tier.ts";
import type { Teacher } from "./teacher.ts";

export interface TextTeacher extends Teacher<TaskInput> {
  /** That it has pieces of its own for, where it has a vocabulary. */
  readonly vocabularyWords: readonly string[];
}

/** To be closed. @throws invalid_project, session_failed */
export async function openTextTierAsTeacher(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
): Promise<TextTeacher & { close(): Promise<void> }> {
  const preprocessor = createTierPreprocessor(source, project, tier);
  const { encodeInput: toBytes } = getTask(project.task);
  const outputs = readProjectLabels(source, project).length;
  const graph = requireProjectFile(source, tier.graph);
  const session = await createNativeRuntime().createSession(graph);
  // A graph may declare that it takes one row, and rows of different lengths need a preprocessor that pads them.
  const takesMany = session.inputs.every(({ shape }) => shape[0] === -1);

  async function logitsOf(inputs: readonly TaskInput[]): Promise<Float32Array> {
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
    encodeInput: toBytes,
    async predict(inputs) {
      if (takesMany) return await logitsOf(inputs);
      const answers = new Float32Array(inputs.length * outputs);
      for (const [position, input] of inputs.entries())
        answers.set(await logitsOf([input]), position * outputs);
      return answers;
    },
    close: () => session.dispose(),
  };
}

/** Whole words of letters, no special tokens. */
function readVocabularyWords(config: PreprocessorConfig): string[] {
  if (config.kind !== "wordpiece") return [];
  const { model } = tokenizerJsonSchema.parse(
    JSON.parse(new TextDecoder().decode(config.artifact)),
  );
  return Object.keys(model.vocab).filter((piece) => /^\p{Ll}{3,}$/u.test(piece));
}
