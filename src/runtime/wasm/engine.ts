// Engine instance: a precompiled module, instantiated with its own memory, with ONNX Runtime initialized.

import { coreErrors } from "../../core/common-errors.ts";
import { reasonOf } from "../../core/errors.ts";
import { runtimeErrors } from "../errors.ts";
import type { GlueFactory, OrtGlue } from "./ort-glue.ts";
import { callEngine, type ReadStrippedFunction, watchStrippedFunctions } from "./traps.ts";

/** Compiled engine and its glue, which `edgetier engine build` makes and a deployment bundles. */
export type EngineModule = {
  readonly wasm: WebAssembly.Module;
  readonly glue: GlueFactory;
  /** SHA-256 of the full engine. All engines cut from it share its addresses, so a snapshot fits all of them. */
  readonly source: string;
} & (
  | { readonly kind: "full" }
  /** Restores and runs snapshots, but cannot open a model. `functions` is the set of remaining functions (function-set.ts). */
  | { readonly kind: "cut"; readonly functions: string }
);

export interface Engine {
  readonly ort: OrtGlue;
  readonly memory: WebAssembly.Memory;
  /** Checks a status code of ONNX Runtime. @throws session_failed with ONNX Runtime's message if it is not 0 */
  checkStatus(status: number, action: string): void;
  /** Checks a handle from ONNX Runtime. @throws session_failed with ONNX Runtime's message if it is 0 */
  checkHandle(handle: number, action: string): number;
  readonly readStrippedFunction: ReadStrippedFunction;
}

/** Limits of the npm package: 16 MiB initially, 4 GiB at most, which is far above an isolate's limit. */
const INITIAL_PAGES = 256;
const MAXIMUM_PAGES = 65_536;
/** Size of a WebAssembly page. */
export const PAGE_BYTES = 65_536;
const LOG_SEVERITY_ERROR = 3;

export interface EngineOptions {
  /** Initial size of the memory. A memory that a snapshot overwrites starts at its final size. */
  readonly initialPages?: number;
  /** Maximum size of the memory. */
  readonly maximumPages?: number;
  /** False skips the initialization of ONNX Runtime, because a restored memory already contains it. */
  readonly initializesRuntime?: boolean;
  readonly now?: () => number;
  /** Receives ONNX Runtime's standard output, which contains its profile if profiling is on. */
  readonly onStdoutLine?: (line: string) => void;
}

/**
 * Starts an engine instance. It does no I/O, so it may run at module scope and in any request.
 * @throws session_too_large, session_failed, engine_trap, function_cut
 */
export async function startEngine(
  module: EngineModule,
  options: EngineOptions = {},
): Promise<Engine> {
  const {
    initialPages = INITIAL_PAGES,
    maximumPages = MAXIMUM_PAGES,
    initializesRuntime = true,
    now = Date.now,
    onStdoutLine = () => {},
  } = options;
  const memory = createMemory(initialPages, maximumPages);
  let readStrippedFunction: ReadStrippedFunction = () => undefined;
  const ort = await new Promise<OrtGlue>((resolve, reject) => {
    // If instantiation fails, the glue's own promise never settles, so the failure is passed on here.
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
        print: onStdoutLine,
        printErr: (line) => console.error(line),
      })
      .then(resolve, reject);
  }).catch((error: unknown) => {
    throw coreErrors.sessionFailed(`the engine failed to start: ${reasonOf(error)}`, error);
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
  if (initializesRuntime)
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
      `a memory of ${initial} pages (at most ${maximum}) cannot be allocated: ${reasonOf(error)}`,
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
