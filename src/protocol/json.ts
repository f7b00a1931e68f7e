// JSON bodies as the Open Inference Protocol needs them: bounded depth, and integers past 2^53 that keep every digit.

import { errors, reasonOf } from "../core/errors.ts";

/** Triton's limit. It also keeps everything that walks a parsed body from running out of stack. */
export const MAX_JSON_DEPTH = 100;

const decoder = new TextDecoder("utf-8", { fatal: true });

/** A number of 16 digits or more: where it is an integer, a double may not hold it. */
const LONG_NUMBER = /[-[,:\s]\d{16}/;
const INTEGER = /^-?\d{16,20}$/;

/**
 * Parses a JSON body. Integers that a double cannot hold come as bigint, of up to 20 digits.
 * @throws invalid_utf8, invalid_json
 */
export function parseJson(body: Uint8Array): unknown {
  const text = decode(body);
  if (isDeeperThan(MAX_JSON_DEPTH, text)) throw errors.invalidJson(`it is nested deeper than ${MAX_JSON_DEPTH} levels`);
  try {
    return LONG_NUMBER.test(text) ? JSON.parse(text, keepLongIntegers) : JSON.parse(text);
  } catch (error) {
    throw errors.invalidJson(reasonOf(error));
  }
}

function decode(body: Uint8Array): string {
  try {
    return decoder.decode(body);
  } catch {
    throw errors.invalidUtf8("The body");
  }
}

function keepLongIntegers(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  const source = context?.source ?? "";
  return INTEGER.test(source) ? BigInt(source) : value;
}

function isDeeperThan(limit: number, text: string): boolean {
  // Few brackets cannot nest deep, and tensors as flat arrays have few: spare them the walk.
  if (countUpTo(limit, text, "[") + countUpTo(limit, text, "{") <= limit) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: // a string: on to its closing quote
        for (at++; at < text.length && text.charCodeAt(at) !== 0x22; at++) if (text.charCodeAt(at) === 0x5c) at++;
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
  for (let at = text.indexOf(character); at >= 0 && count <= limit; at = text.indexOf(character, at + 1)) count++;
  return count;
}
