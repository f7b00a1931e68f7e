// JSON bodies as the Open Inference Protocol needs them: bounded depth, integers past 2^53 that keep every digit, and the
// numbers that JSON has no form for, as Triton and its clients write them.

import { protocolErrors } from "./errors.ts";
import { coreErrors } from "../core/common-errors.ts";
import { reasonOf } from "../core/errors.ts";

/** Triton's limit. It also keeps everything that walks a parsed body from running out of stack. */
export const MAX_JSON_DEPTH = 100;

const decoder = new TextDecoder("utf-8", { fatal: true });

/** A number of 16 digits or more: where it is an integer, a double may not hold it. */
const LONG_NUMBER_PATTERN = /[-[,:\s]\d{16}/;
const INTEGER_PATTERN = /^-?\d{16,20}$/;

const NON_FINITE_PATTERN = /(?:NaN|Infinity|Inf)\b/y;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Parses a JSON body. Integers that a double cannot hold come as bigint, of up to 20 digits; a bare NaN, Infinity, Inf or
 * their negatives, which are no JSON, as the texts "NaN", "Infinity" and "-Infinity".
 * @throws invalid_utf8, invalid_json
 */
export function parseJsonBody(body: Uint8Array): unknown {
  const text = decodeUtf8Body(body);
  if (isDeeperThan(MAX_JSON_DEPTH, text))
    throw protocolErrors.unparsableJson(`it is nested deeper than ${MAX_JSON_DEPTH} levels`);
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

/** Puts what is not a finite number into quotes; what is in quotes already stays as it is. */
function quoteNonFinite(text: string): string {
  const pieces: string[] = [];
  let taken = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = findStringEnd(text, at);
    if (code !== 0x4e && code !== 0x49) continue; // N, I
    NON_FINITE_PATTERN.lastIndex = at;
    const found = NON_FINITE_PATTERN.exec(text)?.[0];
    if (found === undefined) continue;
    const isNegative = text[at - 1] === "-";
    const name = found === "NaN" ? "NaN" : isNegative ? "-Infinity" : "Infinity";
    pieces.push(text.slice(taken, isNegative ? at - 1 : at), `"${name}"`);
    at += found.length - 1;
    taken = at + 1;
  }
  return pieces.length === 0 ? text : pieces.join("") + text.slice(taken);
}

/** @param at its opening quote @returns the index of its closing quote, or the text's length */
function findStringEnd(text: string, at: number): number {
  let end = at + 1;
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
  // Few brackets cannot nest deep, and tensors as flat arrays have few: spare them the walk.
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
