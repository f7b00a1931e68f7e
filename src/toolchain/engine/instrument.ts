// An engine that notes which of its functions were entered: every function begins by setting a byte of its own, far above
// the memory that ONNX Runtime uses. Function indices stay what they are.

import { ByteWriter } from "./byte-stream.ts";
import { OP } from "./instructions.ts";
import { KIND, skipLocals, type WasmModule } from "./wasm-module.ts";

/** Where the bytes begin: function n sets byte FLAGS_AT + n. The memory has to be made large enough; it is address space only. */
export const FLAGS_AT = 512 * 1024 * 1024;

/** Name under which the instrumented engine exports its mutable global. */
export const globalExport = (index: number): string => `global ${index}`;

export function instrument(module: WasmModule): WasmModule {
  const globals = module.globals.flatMap(({ mutable }, index) =>
    mutable ? [{ name: globalExport(index), kind: KIND.global, index }] : [],
  );
  return {
    ...module,
    exports: [...module.exports, ...globals],
    bodies: module.bodies.map((body, position) => {
      const start = skipLocals(body).offset;
      return new ByteWriter()
        .bytes(body.subarray(0, start))
        .byte(OP.i32Const)
        .signed(0)
        .byte(OP.i32Const)
        .signed(1)
        .byte(OP.i32Store8)
        .unsigned(0) // alignment
        .unsigned(FLAGS_AT + module.importedFunctions + position)
        .bytes(body.subarray(start))
        .finish();
    }),
  };
}
