// Small WebAssembly module: contains every feature that instrumenting and stripping an engine must handle.
import binaryen from "binaryen";

const WAT = `(module
  (type $binary (func (param i32 i32) (result i32)))
  (import "env" "log" (func $log (param i32)))
  (import "env" "memory" (memory 2 65536))
  (global $stack (mut i32) (i32.const 4096))
  (global $limit (mut i32) (i32.const -70000))
  (global $version i32 (i32.const 7))
  (table $table 8 8 funcref)
  (elem (i32.const 1) $add $multiply)
  (elem (i32.const 5) $subtract)
  (data $greeting "hello")
  (data (i32.const 32) "there")
  (start $begin)
  (func $begin (memory.init $greeting (i32.const 16) (i32.const 0) (i32.const 5)))
  (func $initialize (export "initialize") (i32.store (i32.const 64) (i32.const 123)))
  (func $add (type $binary) (i32.add (local.get 0) (local.get 1)))
  (func $multiply (type $binary) (i32.mul (local.get 0) (local.get 1)))
  (func $subtract (type $binary) (i32.sub (local.get 0) (local.get 1)))
  (func $choose (export "choose") (param $slot i32) (param $a i32) (param $b i32) (result i32)
    (call_indirect (type $binary) (local.get $a) (local.get $b) (local.get $slot)))
  (func $triple (param $n i32) (result i32)
    (call $log (local.get $n))
    (i32.mul (local.get $n) (i32.const 3)))
  ;; The call may be cut: then what follows it in the block is dead, the other branch is not.
  (func $direct (export "direct") (param $n i32) (result i32) (local $result i32)
    (if (i32.gt_s (local.get $n) (i32.const 0))
      (then
        (block $out
          (local.set $result (i32.add (i32.const 1) (call $triple (local.get $n))))
          (if (i32.gt_s (local.get $result) (i32.const 100)) (then (br $out)) (else (nop)))
          (loop $again
            (block $b (block $a (br_table $a $b $out (i32.and (local.get $result) (i32.const 1)))))
            (local.set $result (i32.add (local.get $result) (call $switch (local.get $result))))
            (br_if $again (i32.lt_s (local.get $result) (i32.const 100))))))
      (else (local.set $result (i32.sub (i32.const 0) (local.get $n)))))
    (local.get $result))
  (func $sometimes (export "sometimes") (param $n i32) (result i32)
    (if (result i32) (local.get $n) (then (call $triple (local.get $n))) (else (i32.const 42))))
  (func $switch (export "switch") (param $n i32) (result i32)
    (block $other (block $two (block $one (block $zero
      (br_table $zero $one $two $other (local.get $n)))
      (return (i32.const 10)))
      (return (i32.const 20)))
      (return (i32.const 30)))
    (i32.const 1))
  (func $sum (export "sum") (param $n i32) (result i32) (local $total i32)
    (loop $again
      (local.set $total (i32.add (local.get $total) (local.get $n)))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $total))
  (func $lanes (export "lanes") (param $n i32) (result i32) (local $vector v128)
    (local.set $vector (i32x4.add (i32x4.splat (local.get $n)) (v128.const i32x4 0x10101010 2 3 4)))
    (v128.store (i32.const 128) (local.get $vector))
    (i32.add (i32x4.extract_lane 3 (local.get $vector)) (i32.load8_u (i32.const 128))))
  (func $globals (export "globals") (result i32) (i32.add (global.get $stack) (i32.add (global.get $limit) (global.get $version))))
  (func $stackSet (export "stackSet") (param i32) (global.set $stack (local.get 0)))
  (export "table" (table $table)))`;

/** Functions by index; the first is imported. */
const names = [...WAT.matchAll(/\(func \$(\w+)/g)].map(([, name]) => name as string);
export const functionIndexesOf = (...wanted: readonly string[]): Set<number> =>
  new Set(wanted.map((name) => names.indexOf(name)));
export const functionNameOf = (number: number): string => names[number] ?? "";

/** @param wat text of a module with the features that onnxruntime-web's engine has */
export function assemble(wat: string = WAT): Uint8Array<ArrayBuffer> {
  const module = binaryen.parseText(wat);
  try {
    module.setFeatures(
      binaryen.Features.MutableGlobals |
        binaryen.Features.SIMD128 |
        binaryen.Features.BulkMemory |
        binaryen.Features.BulkMemoryOpt |
        binaryen.Features.SignExt,
    );
    if (module.validate() !== 1) throw new Error("the module is not valid");
    return new Uint8Array(module.emitBinary());
  } finally {
    module.dispose();
  }
}

export interface SmallWasmInstance {
  readonly memory: WebAssembly.Memory;
  readonly exports: WebAssembly.Exports;
  /** Arguments of the calls of `log`. */
  readonly loggedValues: readonly number[];
  call(name: string, ...parameters: number[]): unknown;
}

/** @param pages size of the memory */
export async function instantiateSmallModule(
  wasm: Uint8Array<ArrayBuffer>,
  pages: number,
): Promise<SmallWasmInstance> {
  const memory = new WebAssembly.Memory({ initial: pages, maximum: 65_536 });
  const logged: number[] = [];
  const { instance } = await WebAssembly.instantiate(wasm, {
    env: { memory, log: (value: number) => void logged.push(value) },
  });
  const { exports } = instance;
  return {
    memory,
    exports,
    loggedValues: logged,
    call: (name, ...parameters) =>
      (exports[name] as (...parameters: number[]) => unknown)(...parameters),
  };
}
