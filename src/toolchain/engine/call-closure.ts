// Call closure: selects the functions that a stripped engine keeps. Those are the entered functions and, within a budget,
// the functions that they could have called.

import { ByteReader } from "./byte-stream.ts";
import { OPCODE, readInstruction } from "./instructions.ts";
import { skipLocals, type WasmModule } from "./wasm-module.ts";

export interface CallClosure {
  /** Function indices without the imported functions. */
  readonly keepFunctions: ReadonlySet<number>;
  /** Functions kept because a profile entered them. */
  readonly enteredCount: number;
  /** Functions kept because a kept function calls them directly. */
  readonly calleeCount: number;
  /** Direct callees of kept functions that did not fit the budget. */
  readonly omittedCount: number;
}

/** Functions of this size dispatch on types. Their further callees are for types that the models do not have. */
const DISPATCHER_MIN_BYTES = 65_536;

/**
 * Spends the budget on the nearest functions, because one profile never enters everything that may be needed. Direct
 * callees of entered functions come first, then their callees, and so on; at equal distance the smallest come first.
 * @param spareBytes maximum code size of the functions beyond the entered ones
 */
export function computeCallClosure(
  module: WasmModule,
  entered: ReadonlySet<number>,
  spareBytes: number,
): CallClosure {
  const { importedFunctionCount, functionBodies } = module;
  const sizeOf = (index: number) => functionBodies[index - importedFunctionCount]?.byteLength ?? 0;
  const keepFunctions = new Set([...entered].filter((index) => index >= importedFunctionCount));
  const enteredCount = keepFunctions.size;
  let remainingBytes = spareBytes;
  let omittedCount = 0;
  const seen = new Set(keepFunctions);
  for (let frontier = [...keepFunctions]; frontier.length > 0;) {
    const callers = frontier.filter((index) => sizeOf(index) < DISPATCHER_MIN_BYTES);
    const next = new Set(
      callers
        .flatMap((index) =>
          findDirectCallees(functionBodies[index - importedFunctionCount] ?? new Uint8Array()),
        )
        .filter((index) => index >= importedFunctionCount && !seen.has(index)),
    );
    frontier = [];
    for (const index of [...next].toSorted((a, b) => sizeOf(a) - sizeOf(b) || a - b)) {
      seen.add(index);
      if (sizeOf(index) > remainingBytes) {
        omittedCount++;
        continue;
      }
      remainingBytes -= sizeOf(index);
      keepFunctions.add(index);
      frontier.push(index);
    }
  }
  const calleeCount = keepFunctions.size - enteredCount;
  return { keepFunctions, enteredCount, calleeCount, omittedCount };
}

function findDirectCallees(body: Uint8Array): number[] {
  const callees: number[] = [];
  for (const reader: ByteReader = skipLocals(body); !reader.isAtEnd;) {
    const { opcode, operand } = readInstruction(reader);
    if (opcode === OPCODE.call || opcode === OPCODE.refFunc) callees.push(operand);
  }
  return callees;
}
