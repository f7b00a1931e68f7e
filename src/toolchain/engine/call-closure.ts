// Which functions a cut engine keeps: those that were entered, and, within a budget, those that they could have called.

import { ByteReader } from "./byte-stream.ts";
import { OPCODE, readInstruction } from "./instructions.ts";
import { skipLocals, type WasmModule } from "./wasm-module.ts";

export interface CallClosure {
  /** Function indices, imported ones left out. */
  readonly keepFunctions: ReadonlySet<number>;
  /** Kept because a profile entered it. */
  readonly enteredCount: number;
  /** Kept because a kept function calls it directly. */
  readonly calleeCount: number;
  /** Direct callees of kept functions for which the budget had no room. */
  readonly omittedCount: number;
}

/** Code of a function that dispatches on types: what it can call beyond the profile is for types that the models do not have. */
const DISPATCHER_MIN_BYTES = 65_536;

/**
 * One profile never sees everything, so the budget goes to what is nearest: direct callees of what was entered, then their
 * callees, and so on; at the same distance the smallest first.
 * @param spareBytes of code beyond what was entered
 */
export function computeCallClosure(
  module: WasmModule,
  entered: ReadonlySet<number>,
  spareBytes: number,
): CallClosure {
  const { importedFunctionCount: importedFunctions, functionBodies: bodies } = module;
  const sizeOf = (index: number) => bodies[index - importedFunctions]?.byteLength ?? 0;
  const keep = new Set([...entered].filter((index) => index >= importedFunctions));
  const profiled = keep.size;
  let left = spareBytes;
  let leftOut = 0;
  const seen = new Set(keep);
  for (let frontier = [...keep]; frontier.length > 0;) {
    const callers = frontier.filter((index) => sizeOf(index) < DISPATCHER_MIN_BYTES);
    const next = new Set(
      callers
        .flatMap((index) =>
          findDirectCallees(bodies[index - importedFunctions] ?? new Uint8Array()),
        )
        .filter((index) => index >= importedFunctions && !seen.has(index)),
    );
    frontier = [];
    for (const index of [...next].toSorted((a, b) => sizeOf(a) - sizeOf(b) || a - b)) {
      seen.add(index);
      if (sizeOf(index) > left) {
        leftOut++;
        continue;
      }
      left -= sizeOf(index);
      keep.add(index);
      frontier.push(index);
    }
  }
  return {
    keepFunctions: keep,
    enteredCount: profiled,
    calleeCount: keep.size - profiled,
    omittedCount: leftOut,
  };
}

function findDirectCallees(body: Uint8Array): number[] {
  const callees: number[] = [];
  for (const reader: ByteReader = skipLocals(body); !reader.isAtEnd;) {
    const { opcode: op, operand } = readInstruction(reader);
    if (op === OPCODE.call || op === OPCODE.refFunc) callees.push(operand);
  }
  return callees;
}
