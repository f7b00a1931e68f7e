// The task "text-classification": one text in, one label out.

import type { Task } from "./task.ts";
import { parseText, textFromBytes } from "./text/text-input.ts";
import { createTextPreprocessor, textOf } from "./text/text-preprocessor.ts";

const encoder = new TextEncoder();

export const textClassification: Task = {
  name: "text-classification",
  example: { kind: "text", text: "a" },
  mediaTypes: ["text/plain"],
  parseInput: parseText,
  identityOf: textOf,
  toBytes: (input) => encoder.encode(textOf(input)),
  fromBytes: textFromBytes,
  createPreprocessor: createTextPreprocessor,
};
