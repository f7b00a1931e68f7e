// Cuts an engine down to some of its functions. What was cut and is called after all ends in a trap that tells which
// function it was; binaryen then removes what nothing refers to any more, and numbers the rest anew.

import binaryen from "binaryen";
import { CUT_FUNCTION_EXPORT, LATEST_SLOT_EXPORT } from "../../runtime/wasm/traps.ts";
import { ByteWriter } from "./byte-stream.ts";
import { OP, readInstruction, usesData } from "./instructions.ts";
import { encodeModule, KIND, skipLocals, type WasmModule } from "./wasm-module.ts";

export interface CutPlan {
  /** Function indices of the full engine. */
  readonly keep: ReadonlySet<number>;
  /** Exports that do nothing any more: constructors of memory that an image replaces. */
  readonly empty: readonly string[];
  /** Values that the globals have once the engine has started. */
  readonly globals: readonly number[];
}

/** The engine's features, and no more: with others binaryen writes encodings that workerd refuses. */
const FEATURES =
  binaryen.Features.Atomics |
  binaryen.Features.MutableGlobals |
  binaryen.Features.NontrappingFPToInt |
  binaryen.Features.SIMD128 |
  binaryen.Features.BulkMemory |
  binaryen.Features.BulkMemoryOpt |
  binaryen.Features.SignExt;

/** @throws Error if the result is not valid */
export function cut(module: WasmModule, plan: CutPlan): Uint8Array<ArrayBuffer> {
  const { importedFunctions } = module;
  const kept = (index: number) => index < importedFunctions || plan.keep.has(index);
  const empty = new Set(
    module.exports.filter(({ name }) => plan.empty.includes(name)).map(({ index }) => index),
  );
  const [cutFunction, latestSlot] = [module.globals.length, module.globals.length + 1];
  const bodies = module.bodies.map((body, position) => {
    const index = importedFunctions + position;
    if (empty.has(index)) return Uint8Array.of(0, OP.end);
    return kept(index)
      ? cutCalls(index, body, kept, cutFunction, latestSlot)
      : trapBody(index, cutFunction);
  });
  return shrink(
    encodeModule({
      ...module,
      bodies,
      memory: { ...module.memory, initialPages: 1 },
      slots: module.slots.map((index) => (index !== undefined && kept(index) ? index : undefined)),
      globals: [
        ...module.globals.map((global, index) => ({
          ...global,
          value: plan.globals[index] ?? global.value,
        })),
        { mutable: true, value: -1 },
        { mutable: true, value: -1 },
      ],
      exports: [
        ...module.exports,
        { name: CUT_FUNCTION_EXPORT, kind: KIND.global, index: cutFunction },
        { name: LATEST_SLOT_EXPORT, kind: KIND.global, index: latestSlot },
      ],
      start: undefined,
      keepData: false,
    }),
  );
}

function writeTrap(out: ByteWriter, index: number, cutFunction: number): ByteWriter {
  return out
    .byte(OP.i32Const)
    .signed(index)
    .byte(OP.globalSet)
    .unsigned(cutFunction)
    .byte(OP.unreachable);
}

const trapBody = (index: number, cutFunction: number): Uint8Array =>
  writeTrap(new ByteWriter().unsigned(0), index, cutFunction).byte(OP.end).finish();

/** Calls of cut functions, and uses of data segments, become traps, and what follows is dropped; indirect calls note their slot. */
function cutCalls(
  index: number,
  body: Uint8Array,
  kept: (index: number) => boolean,
  cutFunction: number,
  latestSlot: number,
): Uint8Array {
  const reader = skipLocals(body);
  const out = new ByteWriter().bytes(body.subarray(0, reader.offset));
  /** Nesting below the block in which a trap has ended the code; undefined while code is live. */
  let deadDepth: number | undefined;
  while (!reader.atEnd) {
    const instruction = readInstruction(reader);
    const { op, start, end, operand } = instruction;
    if (deadDepth !== undefined) {
      if (op === OP.block || op === OP.loop || op === OP.if) deadDepth++;
      else if (deadDepth > 0 && op === OP.end) deadDepth--;
      else if (deadDepth === 0 && (op === OP.end || op === OP.else)) deadDepth = undefined;
      if (deadDepth !== undefined) continue;
    }
    const callsCut = op === OP.call && !kept(operand);
    if (callsCut || usesData(instruction)) {
      writeTrap(out, callsCut ? operand : index, cutFunction);
      deadDepth = 0;
      continue;
    }
    if (op === OP.callIndirect)
      out.byte(OP.globalSet).unsigned(latestSlot).byte(OP.globalGet).unsigned(latestSlot);
    out.bytes(body.subarray(start, end));
  }
  return out.finish();
}

function shrink(wasm: Uint8Array): Uint8Array<ArrayBuffer> {
  const module = binaryen.readBinaryWithFeatures(wasm, FEATURES);
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
