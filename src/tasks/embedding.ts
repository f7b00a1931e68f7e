// Task "embedding": converts one text, or its token ids, to one vector.

import { coreErrors } from "../core/common-errors.ts";
import { taskErrors } from "./errors.ts";
import type { InputLimits, Task, TaskInput, TokensInput } from "./task.ts";
import { parseTextInput, decodeTextInput } from "./text/text-input.ts";
import { createTextPreprocessor, expectText } from "./text/text-preprocessor.ts";

const encoder = new TextEncoder();

/** Marks token ids (little-endian INT32) in an input's bytes. UTF-8 text never contains this byte. */
const TOKENS_MARKER = 0xff;
const TOKEN_ID_BYTES = 4;

export const embeddingTask: Task = {
  name: "embedding",
  exampleInput: { kind: "text", text: "a" },
  mediaTypes: ["text/plain"],

  parseInput: (raw, index, limits) =>
    Array.isArray(raw) ? validateTokens(raw, index, limits) : parseTextInput(raw, index, limits),

  computeIdentity: (input) =>
    input.kind === "tokens" ? `tokens ${input.ids.join()}` : `text ${expectText(input)}`,
  encodeInput: (input) =>
    input.kind === "tokens" ? encodeTokens(input) : encoder.encode(expectText(input)),
  decodeInput: (bytes, index, limits) =>
    bytes[0] === TOKENS_MARKER
      ? decodeTokens(bytes, index, limits)
      : decodeTextInput(bytes, index, limits),

  createPreprocessor: createTextPreprocessor,
};

/** Validates token ids, except for their presence in the vocabulary, which the tokenizer checks. */
function validateTokens(
  ids: readonly unknown[],
  index: number,
  { maxBytes }: InputLimits,
): TokensInput {
  const bytes = ids.length * TOKEN_ID_BYTES;
  if (bytes > maxBytes) throw taskErrors.inputTooLarge(index, bytes, maxBytes);
  if (ids.length === 0) throw taskErrors.emptyText(index);
  if (!ids.every(isTokenId))
    throw coreErrors.invalidRequest([
      `\`inputs[${index}]\` has an invalid token id; expected non-negative integers`,
    ]);
  return { kind: "tokens", ids };
}

const isTokenId = (id: unknown): id is number =>
  typeof id === "number" && Number.isSafeInteger(id) && id >= 0 && id <= 0x7fff_ffff;

function encodeTokens({ ids }: TokensInput): Uint8Array {
  const bytes = new Uint8Array(1 + ids.length * TOKEN_ID_BYTES);
  const view = new DataView(bytes.buffer, 1);
  bytes[0] = TOKENS_MARKER;
  ids.forEach((id, position) => view.setInt32(position * TOKEN_ID_BYTES, id, true));
  return bytes;
}

function decodeTokens(bytes: Uint8Array, index: number, limits: InputLimits): TaskInput {
  if (bytes.byteLength % TOKEN_ID_BYTES !== 1) throw coreErrors.invalidUtf8(`Input ${index}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset + 1, bytes.byteLength - 1);
  return validateTokens(
    Array.from({ length: view.byteLength / TOKEN_ID_BYTES }, (_, position) =>
      view.getInt32(position * TOKEN_ID_BYTES, true),
    ),
    index,
    limits,
  );
}
