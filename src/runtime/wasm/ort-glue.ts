// Types of the onnxruntime-web Emscripten glue that EdgeTier calls: ONNX Runtime's C API for WebAssembly
// (onnxruntime/wasm/api.h upstream). Pointers and handles are byte offsets into the instance's memory.

export interface OrtGlue {
  readonly HEAPU8: Uint8Array;
  readonly HEAP32: Int32Array;
  readonly HEAPU32: Uint32Array;
  stackSave(): number;
  stackRestore(stack: number): void;
  stackAlloc(bytes: number): number;
  UTF8ToString(pointer: number, maxBytes?: number): string;
  _malloc(bytes: number): number;
  _free(pointer: number): void;
  _OrtInit(threads: number, logLevel: number): number;
  _OrtGetLastError(codePointer: number, messagePointer: number): number;
  _OrtCreateSessionOptions(
    graphOptimizationLevel: number,
    cpuMemArena: boolean,
    memPattern: boolean,
    executionMode: number,
    profiling: boolean,
    profilePrefix: number,
    logId: number,
    logSeverity: number,
    logVerbosity: number,
    optimizedModelPath: number,
  ): number;
  _OrtReleaseSessionOptions(options: number): number;
  _OrtCreateSession(model: number, modelBytes: number, options: number): number;
  _OrtReleaseSession(session: number): number;
  /** Writes the profile to standard output. @returns the name of a nonexistent file, which the caller must free */
  _OrtEndProfiling(session: number): number;
  _OrtGetInputOutputCount(
    session: number,
    inputCountPointer: number,
    outputCountPointer: number,
  ): number;
  _OrtGetInputOutputMetadata(
    session: number,
    index: number,
    namePointer: number,
    typePointer: number,
  ): number;
  _OrtFree(pointer: number): number;
  _OrtCreateTensor(
    datatype: number,
    data: number,
    bytes: number,
    shape: number,
    rank: number,
    location: number,
  ): number;
  _OrtGetTensorData(
    tensor: number,
    datatypePointer: number,
    dataPointer: number,
    shapePointer: number,
    rankPointer: number,
  ): number;
  _OrtReleaseTensor(tensor: number): number;
  _OrtRun(
    session: number,
    inputNames: number,
    inputs: number,
    inputCount: number,
    outputNames: number,
    outputCount: number,
    outputs: number,
    runOptions: number,
  ): number;
}

export interface GlueOptions {
  readonly numThreads: number;
  readonly wasmMemory: WebAssembly.Memory;
  readonly instantiateWasm: (
    imports: WebAssembly.Imports,
    onInstance: (instance: Pick<WebAssembly.Instance, "exports">) => void,
  ) => void;
  /** Milliseconds since the epoch, for ONNX Runtime's own records. */
  readonly now: () => number;
  readonly print: (line: string) => void;
  readonly printErr: (line: string) => void;
}

/** Default export of dist/engine/glue.mjs. */
export type GlueFactory = (options: GlueOptions) => Promise<OrtGlue>;
