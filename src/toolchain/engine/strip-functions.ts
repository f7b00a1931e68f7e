// Cuts an engine down to some of its functions. What was cut and is called after all ends in a trap that tells which
// function it was; binaryen then removes what nothing refers to any more, and numbers the rest anew.

import binaryen from "binaryen";
import { STRIPPED_FUNCTION_EXPORT, LATEST_SLOT_EXPORT } from "../../runtime/wasm/traps.ts";
import { ByteWriter } from "./byte-stream.ts";
import { OPCODE, readInstruction, usesDataSegment } from "./instructions.ts";
import { encodeWasmModule, EXTERNAL_KIND, skipLocals, type WasmModule } from "./wasm-module.ts";

export interface StripPlan {
  /** Function indices of the full engine. */
  readonly keepFunctions: ReadonlySet<number>;
  /** Exports that do nothing any more: constructors of memory that an image replaces. */
  readonly emptiedExports: readonly string[];
  /** Values that the globals have once the engine has started. */
  readonly globalValues: readonly number[];
}

/** The engine's features, and no more: with others binaryen writes encodings that workerd refuses. */
const WASM_FEATURES =
  binaryen.Features.Atomics |
  binaryen.Features.MutableGlobals |
  binaryen.Features.NontrappingFPToInt |
  binaryen.Features.SIMD128 |
  binaryen.Features.BulkMemory |
  binaryen.Features.BulkMemoryOpt |
  binaryen.Features.SignExt;

/** @throws Error if the result is not valid */
export function stripFunctions(module: WasmModule, plan: StripPlan): Uint8Array<ArrayBuffer> {
  const { importedFunctionCount: importedFunctions } = module;
  const kept = (index: number) => index < importedFunctions || plan.keepFunctions.has(index);
  const empty = new Set(
    module.exports
      .filter(({ name }) => plan.emptiedExports.includes(name))
      .map(({ index }) => index),
  );
  const [cutFunction, latestSlot] = [module.globals.length, module.globals.length + 1];
  const bodies = module.functionBodies.map((body, position) => {
    const index = importedFunctions + position;
    if (empty.has(index)) return Uint8Array.of(0, OPCODE.end);
    return kept(index)
      ? replaceStrippedCalls(index, body, kept, cutFunction, latestSlot)
      : createTrapBody(index, cutFunction);
  });
  return eliminateDeadCode(
    encodeWasmModule({
      ...module,
      functionBodies: bodies,
      memory: { ...module.memory, initialPages: 1 },
      tableSlots: module.tableSlots.map((index) =>
        index !== undefined && kept(index) ? index : undefined,
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
        { name: STRIPPED_FUNCTION_EXPORT, kind: EXTERNAL_KIND.global, index: cutFunction },
        { name: LATEST_SLOT_EXPORT, kind: EXTERNAL_KIND.global, index: latestSlot },
      ],
      startFunction: undefined,
      includeData: false,
    }),
  );
}

function writeTrap(out: ByteWriter, index: number, cutFunction: number): ByteWriter {
  return out
    .writeByte(OPCODE.i32Const)
    .writeSleb128(index)
    .writeByte(OPCODE.globalSet)
    .writeUleb128(cutFunction)
    .writeByte(OPCODE.unreachable);
}

const createTrapBody = (index: number, cutFunction: number): Uint8Array =>
  writeTrap(new ByteWriter().writeUleb128(0), index, cutFunction).writeByte(OPCODE.end).finish();

/** Calls of cut functions, and uses of data segments, become traps, and what follows is dropped; indirect calls note their slot. */
function replaceStrippedCalls(
  index: number,
  body: Uint8Array,
  kept: (index: number) => boolean,
  cutFunction: number,
  latestSlot: number,
): Uint8Array {
  const reader = skipLocals(body);
  const out = new ByteWriter().writeBytes(body.subarray(0, reader.offset));
  /** Nesting below the block in which a trap has ended the code; undefined while code is live. */
  let deadDepth: number | undefined;
  while (!reader.isAtEnd) {
    const instruction = readInstruction(reader);
    const { opcode: op, startOffset: start, endOffset: end, operand } = instruction;
    if (deadDepth !== undefined) {
      if (op === OPCODE.block || op === OPCODE.loop || op === OPCODE.if) deadDepth++;
      else if (deadDepth > 0 && op === OPCODE.end) deadDepth--;
      else if (deadDepth === 0 && (op === OPCODE.end || op === OPCODE.else)) deadDepth = undefined;
      if (deadDepth !== undefined) continue;
    }
    const callsCut = op === OPCODE.call && !kept(operand);
    if (callsCut || usesDataSegment(instruction)) {
      writeTrap(out, callsCut ? operand : index, cutFunction);
      deadDepth = 0;
      continue;
    }
    if (op === OPCODE.callIndirect)
      out
        .writeByte(OPCODE.globalSet)
        .writeUleb128(latestSlot)
        .writeByte(OPCODE.globalGet)
        .writeUleb128(latestSlot);
    out.writeBytes(body.subarray(start, end));
  }
  return out.finish();
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
    if (module.validate() !== 1) throw new Error("the cut engine is not a valid module");
    return new Uint8Array(module.emitBinary());
  } finally {
    module.dispose();
  }
}
