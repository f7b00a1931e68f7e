// Function sets: encodes function numbers of the full engine as base64 of the LEB128 distances between them.

import { fromBase64, toBase64 } from "../../core/base64.ts";

export function encodeFunctionSet(functions: Iterable<number>): string {
  const bytes: number[] = [];
  let previous = -1;
  for (const number of [...new Set(functions)].toSorted((a, b) => a - b)) {
    let distance = number - previous;
    previous = number;
    for (; distance >= 0x80; distance >>>= 7) bytes.push((distance & 0x7f) | 0x80);
    bytes.push(distance);
  }
  return toBase64(Uint8Array.from(bytes));
}

/** Decodes a set; inverse of `encodeFunctionSet`. */
export function decodeFunctionSet(text: string): Set<number> {
  const functions = new Set<number>();
  let previous = -1;
  let distance = 0;
  let shift = 0;
  for (const byte of fromBase64(text) ?? []) {
    distance += (byte & 0x7f) * 2 ** shift;
    shift += 7;
    if (byte >= 0x80) continue;
    previous += distance;
    functions.add(previous);
    distance = shift = 0;
  }
  return functions;
}

/** Returns the functions of `required` that are not in `available`. */
export function findMissingFunctions(required: string, available: string): number[] {
  const availableNumbers = decodeFunctionSet(available);
  return [...decodeFunctionSet(required)].filter((number) => !availableNumbers.has(number));
}
