// Strips an engine to a set of its functions. A call of a stripped function traps and reports the function's index.
// Binaryen then removes unreferenced code and renumbers the rest.

import binaryen from "binaryen";
import { STRIPPED_FUNCTION_EXPORT, LATEST_SLOT_EXPORT } from "../../runtime/wasm/traps.ts";
import { ByteWriter } from "./byte-stream.ts";
import { OPCODE, readInstruction, usesDataSegment } from "./instructions.ts";
import { encodeWasmModule, EXTERNAL_KIND, skipLocals, type WasmModule } from "./wasm-module.ts";

export interface StripPlan {
  /** Function indices in the full engine. */
  readonly keepFunctions: ReadonlySet<number>;
  /** Exports whose functions become empty: they initialize memory that a snapshot replaces. */
  readonly emptiedExports: readonly string[];
  /** Values of the globals after the engine has started. */
  readonly globalValues: readonly number[];
}

/** Exactly the engine's features. With more, binaryen would write encodings that workerd rejects. */
const WASM_FEATURES =
  binaryen.Features.Atomics |
  binaryen.Features.MutableGlobals |
  binaryen.Features.NontrappingFPToInt |
  binaryen.Features.SIMD128 |
  binaryen.Features.BulkMemory |
  binaryen.Features.BulkMemoryOpt |
  binaryen.Features.SignExt;

/** Indices of the globals that report a trap. */
interface TrapGlobals {
  readonly strippedFunction: number;
  readonly latestSlot: number;
}

/** @throws Error if the result is not a valid module */
export function stripFunctions(module: WasmModule, plan: StripPlan): Uint8Array<ArrayBuffer> {
  const { importedFunctionCount } = module;
  const isKept = (index: number) => index < importedFunctionCount || plan.keepFunctions.has(index);
  const emptied = new Set(
    module.exports
      .filter(({ name }) => plan.emptiedExports.includes(name))
      .map(({ index }) => index),
  );
  const trapGlobals = {
    strippedFunction: module.globals.length,
    latestSlot: module.globals.length + 1,
  };
  const functionBodies = module.functionBodies.map((body, position) => {
    const index = importedFunctionCount + position;
    if (emptied.has(index)) return Uint8Array.of(0, OPCODE.end);
    return isKept(index)
      ? replaceStrippedCalls(index, body, isKept, trapGlobals)
      : createTrapBody(index, trapGlobals);
  });
  return eliminateDeadCode(
    encodeWasmModule({
      ...module,
      functionBodies,
      memory: { ...module.memory, initialPages: 1 },
      tableSlots: module.tableSlots.map((index) =>
        index !== undefined && isKept(index) ? index : undefined,
      ),
      globals: [
        ...module.globals.map((global, index) => ({
          ...global,
          value: plan.globalValues[index] ?? global.value,
        })),
        { mutable: true, value: -1 },
        { mutable: true, value: -1 },
      ],
      exports: [
        ...module.exports,
        {
          name: STRIPPED_FUNCTION_EXPORT,
          kind: EXTERNAL_KIND.global,
          index: trapGlobals.strippedFunction,
        },
        { name: LATEST_SLOT_EXPORT, kind: EXTERNAL_KIND.global, index: trapGlobals.latestSlot },
      ],
      startFunction: undefined,
      includeData: false,
    }),
  );
}

function writeTrap(out: ByteWriter, index: number, { strippedFunction }: TrapGlobals): ByteWriter {
  return out
    .writeByte(OPCODE.i32Const)
    .writeSleb128(index)
    .writeByte(OPCODE.globalSet)
    .writeUleb128(strippedFunction)
    .writeByte(OPCODE.unreachable);
}

const createTrapBody = (index: number, trapGlobals: TrapGlobals): Uint8Array =>
  writeTrap(new ByteWriter().writeUleb128(0), index, trapGlobals).writeByte(OPCODE.end).finish();

/**
 * Replaces calls of stripped functions and uses of data segments by traps, and drops the code after a trap. Indirect calls
 * record their table slot.
 */
function replaceStrippedCalls(
  index: number,
  body: Uint8Array,
  isKept: (index: number) => boolean,
  trapGlobals: TrapGlobals,
): Uint8Array {
  const reader = skipLocals(body);
  const out = new ByteWriter().writeBytes(body.subarray(0, reader.offset));
  /** Nesting depth below the block whose code a trap has ended; undefined while code is live. */
  let deadDepth: number | undefined;
  while (!reader.isAtEnd) {
    const instruction = readInstruction(reader);
    const { opcode, startOffset, endOffset, operand } = instruction;
    if (deadDepth !== undefined) {
      deadDepth = updateDeadDepth(deadDepth, opcode);
      if (deadDepth !== undefined) continue;
    }
    const callsStripped = opcode === OPCODE.call && !isKept(operand);
    if (callsStripped || usesDataSegment(instruction)) {
      writeTrap(out, callsStripped ? operand : index, trapGlobals);
      deadDepth = 0;
      continue;
    }
    if (opcode === OPCODE.callIndirect)
      out
        .writeByte(OPCODE.globalSet)
        .writeUleb128(trapGlobals.latestSlot)
        .writeByte(OPCODE.globalGet)
        .writeUleb128(trapGlobals.latestSlot);
    out.writeBytes(body.subarray(startOffset, endOffset));
  }
  return out.finish();
}

/** @returns undefined if the instruction ends the dead code */
function updateDeadDepth(depth: number, opcode: number): number | undefined {
  if (opcode === OPCODE.block || opcode === OPCODE.loop || opcode === OPCODE.if) return depth + 1;
  if (depth > 0) return opcode === OPCODE.end ? depth - 1 : depth;
  return opcode === OPCODE.end || opcode === OPCODE.else ? undefined : depth;
}

function eliminateDeadCode(wasm: Uint8Array): Uint8Array<ArrayBuffer> {
  const module = binaryen.readBinaryWithFeatures(wasm, WASM_FEATURES);
  try {
    module.runPasses([
      "dce",
      "vacuum",
      "remove-unused-brs",
      "vacuum",
      "remove-unused-module-elements",
      "reorder-functions",
    ]);
    if (module.validate() !== 1) throw new Error("the stripped engine is not a valid module");
    return new Uint8Array(module.emitBinary());
  } finally {
    module.dispose();
  }
}
