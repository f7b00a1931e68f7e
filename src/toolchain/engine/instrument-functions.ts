// Instruments an engine so that it records which functions are entered. Every function sets its own flag byte first, far
// above the memory that ONNX Runtime uses. Function indices do not change.

import { ByteWriter } from "./byte-stream.ts";
import { OPCODE } from "./instructions.ts";
import { EXTERNAL_KIND, skipLocals, type WasmModule } from "./wasm-module.ts";

/** Offset of the flag bytes: function n sets byte ENTRY_FLAGS_OFFSET + n. The memory must include them; it is only address space. */
export const ENTRY_FLAGS_OFFSET = 512 * 1024 * 1024;

/** Name under which the instrumented engine exports a mutable global. */
export const globalExportName = (index: number): string => `global ${index}`;

/** Adds the flags, and exports the mutable globals. */
export function instrumentFunctions(module: WasmModule): WasmModule {
  const globals = module.globals.flatMap(({ mutable }, index) =>
    mutable ? [{ name: globalExportName(index), kind: EXTERNAL_KIND.global, index }] : [],
  );
  return {
    ...module,
    exports: [...module.exports, ...globals],
    functionBodies: module.functionBodies.map((body, position) => {
      const start = skipLocals(body).offset;
      return new ByteWriter()
        .writeBytes(body.subarray(0, start))
        .writeByte(OPCODE.i32Const)
        .writeSleb128(0)
        .writeByte(OPCODE.i32Const)
        .writeSleb128(1)
        .writeByte(OPCODE.i32Store8)
        .writeUleb128(0) // alignment
        .writeUleb128(ENTRY_FLAGS_OFFSET + module.importedFunctionCount + position)
        .writeBytes(body.subarray(start))
        .finish();
    }),
  };
}
