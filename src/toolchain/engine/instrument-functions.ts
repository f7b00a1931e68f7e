// An engine that notes which of its functions were entered: every function begins by setting a byte of its own, far above
// the memory that ONNX Runtime uses. Function indices stay what they are.

import { ByteWriter } from "./byte-stream.ts";
import { OPCODE } from "./instructions.ts";
import { EXTERNAL_KIND, skipLocals, type WasmModule } from "./wasm-module.ts";

/** Where the bytes begin: function n sets byte FLAGS_AT + n. The memory has to be made large enough; it is address space only. */
export const ENTRY_FLAGS_OFFSET = 512 * 1024 * 1024;

/** Name under which the instrumented engine exports its mutable global. */
export const globalExportName = (index: number): string => `global ${index}`;

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
