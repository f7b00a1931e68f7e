// The task "text-classification": one text in, one label out.

import { errors } from "../core/errors.ts";
import { foundInstead } from "./found-instead.ts";
import type { InputLimits, Task, TaskInput } from "./task.ts";
import { createTextPreprocessor, textOf } from "./text/text-preprocessor.ts";

const encoder = new TextEncoder();
// A byte order mark is text like any other here: dropping it would make two inputs one.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Nothing but white space, controls (NUL is one) and invisible format characters: no model can tell anything from that. */
const BLANK = /^[\s\p{Cc}\p{Cf}]*$/u;

export const textClassification: Task = {
  name: "text-classification",
  example: { kind: "text", text: "a" },
  mediaTypes: ["text/plain"],

  parseInput(raw, index, limits) {
    if (typeof raw !== "string") throw errors.invalidRequest([`inputs.${index}: expected a text, found ${foundInstead(raw)}`]);
    // A lone surrogate has no UTF-8: it could neither be hashed for a cache nor sent to a region without changing it.
    if (!raw.isWellFormed()) throw errors.invalidUtf8(`Input ${index}`);
    // A UTF-16 unit becomes three bytes of UTF-8 at most, so most inputs need not be encoded to know that they fit.
    const bytes = raw.length * 3 <= limits.maxBytes ? raw.length : encoder.encode(raw).byteLength;
    return checked(raw, bytes, index, limits);
  },

  identityOf: textOf,
  toBytes: (input) => encoder.encode(textOf(input)),

  fromBytes(bytes, index, limits) {
    return checked(decode(bytes, index), bytes.byteLength, index, limits);
  },

  createPreprocessor: createTextPreprocessor,
};

function checked(text: string, bytes: number, index: number, limits: InputLimits): TaskInput {
  if (bytes > limits.maxBytes) throw errors.inputTooLarge(index, bytes, limits.maxBytes);
  if (BLANK.test(text)) throw errors.emptyText(index);
  return { kind: "text", text };
}

function decode(bytes: Uint8Array, index: number): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw errors.invalidUtf8(`Input ${index}`);
  }
}
