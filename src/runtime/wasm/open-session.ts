// Opens a model in an engine instance, and reads its inputs and outputs.

import { coreErrors } from "../../core/common-errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import type { Engine } from "./engine.ts";
import { fromOnnxType } from "./onnx-datatypes.ts";
import { callEngine } from "./traps.ts";

const OPTIMIZATION_LEVEL_ALL = 99;
const EXECUTION_MODE_SEQUENTIAL = 0;
const LOG_SEVERITY_ERROR = 3;

/**
 * Session options that a snapshot and its reader must share, in addition to engine and model. Existing snapshots contain
 * this text, so its spelling must not change.
 */
export const SESSION_OPTIONS_FINGERPRINT = [
  "threads=1",
  `optimisation=${OPTIMIZATION_LEVEL_ALL}`,
  "arena=on",
  "pattern=on",
  `execution=${EXECUTION_MODE_SEQUENTIAL}`,
].join(" ");

/** Session input or output. `namePointer` is ONNX Runtime's C string in the instance's memory, valid as long as the session. */
export interface SessionValue {
  readonly spec: TensorSpec;
  readonly namePointer: number;
}

/** Handle of ONNX Runtime's session. It has numbers only, which are valid in any copy of the instance's memory. */
export interface WasmSessionHandle {
  readonly handle: number;
  readonly inputs: readonly SessionValue[];
  readonly outputs: readonly SessionValue[];
}

/** @param options.profile enables ONNX Runtime's profile of node durations @throws session_failed */
export function openSession(
  engine: Engine,
  model: Uint8Array,
  { profile = false }: { readonly profile?: boolean } = {},
): WasmSessionHandle {
  const { ort } = engine;
  const modelPointer = ort._malloc(model.byteLength);
  if (modelPointer === 0)
    throw coreErrors.sessionFailed(`out of memory for a model of ${model.byteLength} bytes`);
  ort.HEAPU8.set(model, modelPointer);
  const options = engine.checkHandle(
    ort._OrtCreateSessionOptions(
      OPTIMIZATION_LEVEL_ALL,
      true,
      true,
      EXECUTION_MODE_SEQUENTIAL,
      profile,
      0,
      0,
      LOG_SEVERITY_ERROR,
      0,
      0,
    ),
    "session options",
  );
  const handle = callEngine(engine, "creating the session", () =>
    engine.checkHandle(
      ort._OrtCreateSession(modelPointer, model.byteLength, options),
      "creating the session",
    ),
  );
  ort._OrtReleaseSessionOptions(options);
  ort._free(modelPointer);
  const [inputs, outputs] = readSessionValues(engine, handle);
  return { handle, inputs, outputs };
}

/** Reads names, datatypes and shapes of all inputs and outputs; a symbolic dimension becomes -1. */
function readSessionValues(
  engine: Engine,
  session: number,
): [inputs: SessionValue[], outputs: SessionValue[]] {
  const { ort } = engine;
  const stack = ort.stackSave();
  try {
    const counts = ort.stackAlloc(8);
    engine.checkStatus(
      ort._OrtGetInputOutputCount(session, counts, counts + 4),
      "reading the model's inputs",
    );
    const inputCount = ort.HEAPU32[counts >>> 2] ?? 0;
    const outputCount = ort.HEAPU32[(counts >>> 2) + 1] ?? 0;
    const values = Array.from({ length: inputCount + outputCount }, (_, index) =>
      readSessionValue(engine, session, index),
    );
    return [values.slice(0, inputCount), values.slice(inputCount)];
  } finally {
    ort.stackRestore(stack);
  }
}

function readSessionValue(engine: Engine, session: number, index: number): SessionValue {
  const { ort } = engine;
  const pointers = ort.stackAlloc(8);
  engine.checkStatus(
    ort._OrtGetInputOutputMetadata(session, index, pointers, pointers + 4),
    `reading input or output ${index}`,
  );
  const namePointer = ort.HEAPU32[pointers >>> 2] ?? 0;
  const typePointer = ort.HEAPU32[(pointers >>> 2) + 1] ?? 0;
  const name = ort.UTF8ToString(namePointer);
  // Layout: {int32 onnxType, uint32 rank, char* symbol[rank], uint32 dimension[rank]}.
  const at = typePointer >>> 2;
  const datatype = fromOnnxType(ort.HEAP32[at] ?? 0);
  if (datatype === undefined)
    throw coreErrors.sessionFailed(
      `${name} has ONNX type ${ort.HEAP32[at]}, which the edge cannot run`,
    );
  const rank = ort.HEAPU32[at + 1] ?? 0;
  const shape = Array.from({ length: rank }, (_, axis) =>
    ort.HEAPU32[at + 2 + axis] === 0 ? (ort.HEAP32[at + 2 + rank + axis] ?? -1) : -1,
  );
  ort._OrtFree(typePointer);
  return { spec: { name, datatype, shape }, namePointer };
}
