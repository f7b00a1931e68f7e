// Task "text-classification": classifies one text.

import type { Task } from "./task.ts";
import { parseTextInput, decodeTextInput } from "./text/text-input.ts";
import { createTextPreprocessor, expectText } from "./text/text-preprocessor.ts";

const encoder = new TextEncoder();

export const textClassificationTask: Task = {
  name: "text-classification",
  exampleInput: { kind: "text", text: "a" },
  mediaTypes: ["text/plain"],
  parseInput: parseTextInput,
  computeIdentity: expectText,
  encodeInput: (input) => encoder.encode(expectText(input)),
  decodeInput: decodeTextInput,
  createPreprocessor: createTextPreprocessor,
};
