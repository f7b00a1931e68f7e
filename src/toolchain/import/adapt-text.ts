// Makes a text graph's inputs those that a text preprocessor gives (tasks/text/text-preprocessor.ts).

import type { Model } from "../onnx/model-file.ts";
import { codeOf } from "../onnx/tensors.ts";
import { elementCodeOf, giveZeros, takeInt64 } from "./adapt-inputs.ts";
import type { Problem } from "./problem.ts";

export type TextKind = "wordpiece" | "hashed-ngrams";

const GIVEN: Readonly<Record<TextKind, readonly string[]>> = {
  wordpiece: ["input_ids", "attention_mask"],
  "hashed-ngrams": ["ids"],
};
/** Of a single text, all of its tokens are of the first segment: zeros. */
const SEGMENTS = "token_type_ids";

/** Changes the model. @returns what was changed, as sentences; or why it cannot be */
export function adaptText(model: Model, kind: TextKind): readonly string[] | Problem {
  const notes: string[] = [];
  const given = GIVEN[kind];
  const taken = () => model.graph.input.map(({ name }) => name);
  if (kind === "wordpiece" && taken().includes(SEGMENTS) && taken().includes("input_ids")) {
    giveZeros(model, SEGMENTS, "input_ids");
    notes.push(`input "${SEGMENTS}" is taken off: for one text it is zeros`);
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
    const code = elementCodeOf(input);
    const wanted = kind === "wordpiece" ? "int64" : "int32";
    if (code === codeOf(wanted)) continue;
    if (kind === "hashed-ngrams" || code !== codeOf("int32"))
      return {
        problem: `its input ${JSON.stringify(input.name)} is not ${wanted.toUpperCase()}`,
        remedy: `Export it with inputs of ${wanted.toUpperCase()}.`,
      };
    takeInt64(model, input.name);
    notes.push(`input ${JSON.stringify(input.name)} takes INT64, which is cast to INT32`);
  }
  return notes;
}
