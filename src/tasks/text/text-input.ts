// Text inputs of tasks: parses them from JSON or bytes, and checks the model's limits.

import { coreErrors } from "../../core/common-errors.ts";
import { taskErrors } from "../errors.ts";
import { createInputTypeError } from "../input-type-error.ts";
import type { InputLimits, TextInput } from "../task.ts";

const encoder = new TextEncoder();
// A byte order mark stays part of the text, because dropping it would make two different inputs equal.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Matches text of only white space, control characters (such as NUL) and invisible format characters. */
const BLANK_PATTERN = /^[\s\p{Cc}\p{Cf}]*$/u;

/** @throws invalid_request, invalid_utf8, input_too_large, empty_text */
export function parseTextInput(raw: unknown, index: number, limits: InputLimits): TextInput {
  if (typeof raw !== "string") throw createInputTypeError(raw, index, "a string");
  // A lone surrogate has no UTF-8 form, so hashing the text or sending it to a region would change it.
  if (!raw.isWellFormed()) throw coreErrors.invalidUtf8(`Input ${index}`);
  // A UTF-16 unit becomes at most three bytes of UTF-8, so most inputs fit without encoding.
  const bytes = raw.length * 3 <= limits.maxBytes ? raw.length : encoder.encode(raw).byteLength;
  return validateText(raw, bytes, index, limits);
}

/** @throws invalid_utf8, input_too_large, empty_text */
export function decodeTextInput(bytes: Uint8Array, index: number, limits: InputLimits): TextInput {
  return validateText(decode(bytes, index), bytes.byteLength, index, limits);
}

function validateText(text: string, bytes: number, index: number, limits: InputLimits): TextInput {
  if (bytes > limits.maxBytes) throw taskErrors.inputTooLarge(index, bytes, limits.maxBytes);
  if (BLANK_PATTERN.test(text)) throw taskErrors.emptyText(index);
  return { kind: "text", text };
}

function decode(bytes: Uint8Array, index: number): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw coreErrors.invalidUtf8(`Input ${index}`);
  }
}
