// Adapts a text graph's inputs to the outputs of a text preprocessor
// (tasks/text/text-preprocessor.ts).

import type { Model } from "../onnx/model-file.ts";
import { toDataType } from "../onnx/tensor-data.ts";
import { elemTypeOf, replaceInputWithZeros, convertInputToInt64 } from "./adapt-inputs.ts";
import type { ImportProblem } from "./import-problem.ts";

export type TextPreprocessorKind = "wordpiece" | "hashed-ngrams";

const PREPROCESSOR_OUTPUTS: Readonly<Record<TextPreprocessorKind, readonly string[]>> = {
  wordpiece: ["input_ids", "attention_mask"],
  "hashed-ngrams": ["ids"],
};
/** All tokens of a single text belong to the first segment, so the input is zeros. */
const SEGMENT_IDS = "token_type_ids";

/** Changes the model. @returns the changes as sentences, or the problem */
export function adaptText(
  model: Model,
  kind: TextPreprocessorKind,
): readonly string[] | ImportProblem {
  const notes: string[] = [];
  const providedNames = PREPROCESSOR_OUTPUTS[kind];
  const inputNames = () => model.graph.input.map(({ name }) => name);
  if (
    kind === "wordpiece" &&
    inputNames().includes(SEGMENT_IDS) &&
    inputNames().includes("input_ids")
  ) {
    replaceInputWithZeros(model, SEGMENT_IDS, "input_ids");
    notes.push(`input "${SEGMENT_IDS}" is removed, because it is always zero for a single text`);
  }
  const [missing, extra] = [
    providedNames.filter((name) => !inputNames().includes(name)),
    inputNames().filter((name) => !providedNames.includes(name)),
  ];
  if (missing.length + extra.length > 0) {
    const listedNames = inputNames()
      .map((name) => JSON.stringify(name))
      .join(", ");
    return {
      problem: `its inputs are ${listedNames}, but a ${kind} preprocessor provides ${providedNames.join(" and ")}`,
      remedy:
        "Export it with these inputs (input_names in torch.onnx.export), or import it with --task tensor and preprocess in the client.",
    };
  }
  for (const input of model.graph.input) {
    const code = elemTypeOf(input);
    const expectedType = kind === "wordpiece" ? "int64" : "int32";
    if (code === toDataType(expectedType)) continue;
    if (kind === "hashed-ngrams" || code !== toDataType("int32"))
      return {
        problem: `its input ${JSON.stringify(input.name)} is not ${expectedType.toUpperCase()}`,
        remedy: `Export it with ${expectedType.toUpperCase()} inputs.`,
      };
    convertInputToInt64(model, input.name);
    notes.push(`input ${JSON.stringify(input.name)} is now INT64 and is cast to INT32`);
  }
  return notes;
}
