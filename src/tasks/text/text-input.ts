// A text as a task's input: read from JSON or from its bytes, and within the model's limits.

import { coreErrors } from "../../core/common-errors.ts";
import { taskErrors } from "../errors.ts";
import { describeInputType } from "../describe-input.ts";
import type { InputLimits, TextInput } from "../task.ts";

const encoder = new TextEncoder();
// A byte order mark is text like any other here: dropping it would make two inputs one.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Nothing but white space, controls (NUL is one) and invisible format characters: no model can tell anything from that. */
const BLANK_PATTERN = /^[\s\p{Cc}\p{Cf}]*$/u;

/** @throws invalid_request, invalid_utf8, input_too_large, empty_text */
export function parseTextInput(raw: unknown, index: number, limits: InputLimits): TextInput {
  if (typeof raw !== "string")
    throw coreErrors.invalidRequest([
      `inputs.${index}: expected a text, found ${describeInputType(raw)}`,
    ]);
  // A lone surrogate has no UTF-8: it could neither be hashed for a cache nor sent to a region without changing it.
  if (!raw.isWellFormed()) throw coreErrors.invalidUtf8(`Input ${index}`);
  // A UTF-16 unit becomes three bytes of UTF-8 at most, so most inputs need not be encoded to know that they fit.
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
