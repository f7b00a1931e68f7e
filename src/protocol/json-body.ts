// Parses JSON bodies of the Open Inference Protocol: with bounded depth, lossless integers beyond 2^53, and non-finite
// numbers as Triton and its clients write them.

import { coreErrors } from "../core/common-errors.ts";
import { reasonOf } from "../core/errors.ts";
import { protocolErrors } from "./errors.ts";

/** Triton's limit. It also prevents stack overflows in code that traverses a parsed body. */
export const MAX_JSON_DEPTH = 100;

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Finds a number of at least 16 digits; a double may not represent such an integer. */
const LONG_NUMBER_PATTERN = /[-[,:\s]\d{16}/;
const INTEGER_PATTERN = /^-?\d{16,20}$/;

const NON_FINITE_PATTERN = /(?:NaN|Infinity|Inf)\b/y;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Parses a JSON body. Integers of up to 20 digits that a double cannot represent become bigint. The non-JSON tokens
 * NaN, Infinity, Inf and their negatives become the strings "NaN", "Infinity" and "-Infinity".
 * @throws invalid_utf8, invalid_json
 */
export function parseJsonBody(body: Uint8Array): unknown {
  const text = decodeUtf8Body(body);
  if (isDeeperThan(MAX_JSON_DEPTH, text))
    throw protocolErrors.unparsableJson(`nesting exceeds ${MAX_JSON_DEPTH} levels`);
  try {
    return parseLosslessJson(text);
  } catch (error) {
    const quoted = quoteNonFinite(text);
    if (quoted === text) throw protocolErrors.unparsableJson(reasonOf(error));
    try {
      return parseLosslessJson(quoted);
    } catch {
      throw protocolErrors.unparsableJson(reasonOf(error));
    }
  }
}

const parseLosslessJson = (text: string): unknown =>
  LONG_NUMBER_PATTERN.test(text) ? JSON.parse(text, reviveLongIntegers) : JSON.parse(text);

/** Quotes non-finite numbers outside strings. */
function quoteNonFinite(text: string): string {
  const pieces: string[] = [];
  let copiedTo = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = findStringEnd(text, at);
    if (code !== 0x4e && code !== 0x49) continue; // N, I
    NON_FINITE_PATTERN.lastIndex = at;
    const token = NON_FINITE_PATTERN.exec(text)?.[0];
    if (token === undefined) continue;
    const isNegative = text[at - 1] === "-";
    const name = token === "NaN" ? "NaN" : isNegative ? "-Infinity" : "Infinity";
    pieces.push(text.slice(copiedTo, isNegative ? at - 1 : at), `"${name}"`);
    at += token.length - 1;
    copiedTo = at + 1;
  }
  return pieces.length === 0 ? text : pieces.join("") + text.slice(copiedTo);
}

/** @param start index of the opening quote @returns the index of the closing quote, or the text's length */
function findStringEnd(text: string, start: number): number {
  let end = start + 1;
  while (end < text.length && text.charCodeAt(end) !== QUOTE)
    end += text.charCodeAt(end) === BACKSLASH ? 2 : 1;
  return end;
}

/** @throws invalid_utf8 */
export function decodeUtf8Body(body: Uint8Array): string {
  try {
    return decoder.decode(body);
  } catch {
    throw coreErrors.invalidUtf8("The body");
  }
}

function reviveLongIntegers(
  _key: string,
  value: unknown,
  context?: { readonly source?: string },
): unknown {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  const source = context?.source ?? "";
  return INTEGER_PATTERN.test(source) ? BigInt(source) : value;
}

function isDeeperThan(limit: number, text: string): boolean {
  // Tensors as flat arrays have few brackets and so cannot nest deeply; they skip the slower scan below.
  if (countUpTo(limit, text, "[") + countUpTo(limit, text, "{") <= limit) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = findStringEnd(text, at);
        break;
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > limit) return true;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
    }
  }
  return false;
}

function countUpTo(limit: number, text: string, character: string): number {
  let count = 0;
  for (
    let at = text.indexOf(character);
    at >= 0 && count <= limit;
    at = text.indexOf(character, at + 1)
  )
    count++;
  return count;
}
