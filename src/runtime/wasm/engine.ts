// One instance of the engine: instantiated from a precompiled module on a memory of its own, with ONNX Runtime started.

import { coreErrors } from "../../core/common-errors.ts";
import { runtimeErrors } from "../errors.ts";
import { reasonOf } from "../../core/errors.ts";
import type { GlueFactory, OrtGlue } from "./ort-glue.ts";
import { callEngine, type ReadStrippedFunction, watchStrippedFunctions } from "./traps.ts";

/** What a deployment bundles: a compiled engine and its glue, as `edgetier engine build` makes them. */
export type EngineModule = {
  readonly wasm: WebAssembly.Module;
  readonly glue: GlueFactory;
  /** SHA-256 of the full engine: all that is cut from it has its addresses, so a snapshot fits all of them. */
  readonly source: string;
} & (
  | { readonly kind: "full" }
  /** Restores snapshots and runs them, but cannot open a model. `functions` (function-set.ts) are those that it has. */
  | { readonly kind: "cut"; readonly functions: string }
);

export interface Engine {
  readonly ort: OrtGlue;
  readonly memory: WebAssembly.Memory;
  /** Calls ONNX Runtime; a status other than 0 becomes session_failed with ONNX Runtime's own message. */
  checkStatus(status: number, action: string): void;
  /** Like `check`, for calls that return a handle: 0 is the failure. */
  checkHandle(handle: number, action: string): number;
  readonly readStrippedFunction: ReadStrippedFunction;
}

/** The npm package's own limits: 16 MiB at first, 4 GiB at most (an isolate ends long before). */
const INITIAL_PAGES = 256;
const MAXIMUM_PAGES = 65_536;
/** Of WebAssembly memory. */
export const PAGE_BYTES = 65_536;
const LOG_SEVERITY_ERROR = 3;

export interface EngineOptions {
  /** Of the memory at first; a memory that is to be overwritten is made at its final size. */
  readonly initialPages?: number;
  /** Where the memory may not grow beyond. */
  readonly maximumPages?: number;
  /** False leaves ONNX Runtime itself unstarted, for a memory in which it runs already. */
  readonly initializesRuntime?: boolean;
  readonly now?: () => number;
  /** Gets what ONNX Runtime writes to its standard output: its profile, where one was asked for. */
  readonly onStdoutLine?: (line: string) => void;
}

/**
 * Does no I/O, so it may run at module scope and in any request.
 * @throws session_too_large, session_failed, engine_trap, function_cut
 */
export async function startEngine(
  module: EngineModule,
  options: EngineOptions = {},
): Promise<Engine> {
  const {
    initialPages = INITIAL_PAGES,
    maximumPages = MAXIMUM_PAGES,
    initializesRuntime: startRuntime = true,
    now = Date.now,
    onStdoutLine: print = () => {},
  } = options;
  const memory = createMemory(initialPages, maximumPages);
  let readStrippedFunction: ReadStrippedFunction = () => undefined;
  const ort = await new Promise<OrtGlue>((resolve, reject) => {
    // The glue's own promise never settles when instantiation fails, so that failure is passed on here.
    const instantiateWasm = (
      imports: WebAssembly.Imports,
      onInstance: (instance: Pick<WebAssembly.Instance, "exports">) => void,
    ) => {
      WebAssembly.instantiate(module.wasm, imports).then((instance) => {
        const watched = watchStrippedFunctions(instance.exports);
        readStrippedFunction = watched.readStrippedFunction;
        onInstance({ exports: watched.exports });
      }, reject);
    };
    module
      .glue({
        numThreads: 1,
        wasmMemory: memory,
        instantiateWasm,
        now,
        print,
        printErr: (line) => console.error(line),
      })
      .then(resolve, reject);
  }).catch((error: unknown) => {
    throw coreErrors.sessionFailed(`the engine does not start: ${reasonOf(error)}`, error);
  });

  const engine: Engine = {
    ort,
    memory,
    readStrippedFunction: () => readStrippedFunction(),
    checkStatus(status, action) {
      if (status !== 0) throw coreErrors.sessionFailed(`${action}: ${readLastError(ort)}`);
    },
    checkHandle(handle, action) {
      if (handle === 0) throw coreErrors.sessionFailed(`${action}: ${readLastError(ort)}`);
      return handle;
    },
  };
  if (startRuntime)
    callEngine(engine, "starting ONNX Runtime", () =>
      engine.checkStatus(ort._OrtInit(1, LOG_SEVERITY_ERROR), "starting ONNX Runtime"),
    );
  return engine;
}

function createMemory(initial: number, maximum: number): WebAssembly.Memory {
  if (initial > maximum)
    throw runtimeErrors.sessionTooLarge(initial * PAGE_BYTES, maximum * PAGE_BYTES);
  try {
    return new WebAssembly.Memory({ initial, maximum });
  } catch (error) {
    throw coreErrors.sessionFailed(
      `no memory of ${initial} pages can be had, ${maximum} at most: ${reasonOf(error)}`,
      error,
    );
  }
}

function readLastError(ort: OrtGlue): string {
  const stack = ort.stackSave();
  try {
    const pointer = ort.stackAlloc(8);
    ort._OrtGetLastError(pointer, pointer + 4);
    const message = ort.HEAPU32[(pointer + 4) >>> 2] ?? 0;
    return message === 0 ? "no message" : ort.UTF8ToString(message);
  } finally {
    ort.stackRestore(stack);
  }
}
