// Makes a text graph's inputs those that a text preprocessor gives (tasks/text/text-preprocessor.ts).

import type { Model } from "../onnx/model-file.ts";
import { toDataType } from "../onnx/tensor-data.ts";
import { elemTypeOf, replaceInputWithZeros, convertInputToInt64 } from "./adapt-inputs.ts";
import type { ImportProblem } from "./import-problem.ts";

export type TextPreprocessorKind = "wordpiece" | "hashed-ngrams";

const PREPROCESSOR_OUTPUTS: Readonly<Record<TextPreprocessorKind, readonly string[]>> = {
  wordpiece: ["input_ids", "attention_mask"],
  "hashed-ngrams": ["ids"],
};
/** Of a single text, all of its tokens are of the first segment: zeros. */
const SEGMENT_IDS = "token_type_ids";

/** Changes the model. @returns what was changed, as sentences; or why it cannot be */
export function adaptText(
  model: Model,
  kind: TextPreprocessorKind,
): readonly string[] | ImportProblem {
  const notes: string[] = [];
  const given = PREPROCESSOR_OUTPUTS[kind];
  const taken = () => model.graph.input.map(({ name }) => name);
  if (kind === "wordpiece" && taken().includes(SEGMENT_IDS) && taken().includes("input_ids")) {
    replaceInputWithZeros(model, SEGMENT_IDS, "input_ids");
    notes.push(`input "${SEGMENT_IDS}" is taken off: for one text it is zeros`);
  }
  const [missing, extra] = [
    given.filter((name) => !taken().includes(name)),
    taken().filter((name) => !given.includes(name)),
  ];
  if (missing.length + extra.length > 0) {
    const found = taken()
      .map((name) => JSON.stringify(name))
      .join(", ");
    return {
      problem: `its inputs are ${found}, where a ${kind} preprocessor gives ${given.join(" and ")}`,
      remedy:
        "Export it with these inputs (input_names in torch.onnx.export), or import it with --task tensor and preprocess where it is asked.",
    };
  }
  for (const input of model.graph.input) {
    const code = elemTypeOf(input);
    const wanted = kind === "wordpiece" ? "int64" : "int32";
    if (code === toDataType(wanted)) continue;
    if (kind === "hashed-ngrams" || code !== toDataType("int32"))
      return {
        problem: `its input ${JSON.stringify(input.name)} is not ${wanted.toUpperCase()}`,
        remedy: `Export it with inputs of ${wanted.toUpperCase()}.`,
      };
    convertInputToInt64(model, input.name);
    notes.push(`input ${JSON.stringify(input.name)} takes INT64, which is cast to INT32`);
  }
  return notes;
}
