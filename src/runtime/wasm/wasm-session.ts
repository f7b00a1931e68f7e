// Session in its own engine instance. A run is one synchronous call, so runs cannot overlap.

import { byteView } from "../../core/bytes.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { type EdgeTierError } from "../../core/errors.ts";
import { type NamedTensors, type Tensor, typedArrays } from "../../core/tensor.ts";
import type { Session } from "../runtime.ts";
import { validateInputs } from "../validate-inputs.ts";
import type { Engine } from "./engine.ts";
import { fromOnnxType, toOnnxType } from "./onnx-datatypes.ts";
import type { WasmSessionHandle, SessionValue } from "./open-session.ts";
import { callEngine, isEngineTrap } from "./traps.ts";

const CPU_MEMORY_LOCATION = 1;

/** Creates a Session over an open session of the instance, whether new or restored from a snapshot. */
export function createWasmSession(
  engine: Engine,
  { handle: session, inputs, outputs }: WasmSessionHandle,
): Session {
  const { ort } = engine;
  const inputSpecs = inputs.map(({ spec }) => spec);
  let closedReason: string | undefined;

  return {
    inputs: inputSpecs,
    outputs: outputs.map(({ spec }) => spec),
    get memoryBytes() {
      return engine.memory.buffer.byteLength;
    },
    async run(tensors) {
      if (closedReason !== undefined)
        throw coreErrors.sessionFailed(`this session is closed: ${closedReason}`);
      validateInputs(inputSpecs, tensors);
      try {
        return callEngine(engine, "running the model", () =>
          runSession(engine, session, inputs, outputs, tensors),
        );
      } catch (error) {
        if (isEngineTrap(error)) closedReason = (error as EdgeTierError).detail;
        throw error;
      }
    },
    async dispose() {
      if (closedReason === undefined) ort._OrtReleaseSession(session);
      closedReason ??= "it was disposed of";
    },
  };
}

function runSession(
  engine: Engine,
  session: number,
  inputs: readonly SessionValue[],
  outputs: readonly SessionValue[],
  tensors: NamedTensors,
): NamedTensors {
  const { ort } = engine;
  const stack = ort.stackSave();
  const buffers: number[] = [];
  const handles: number[] = [];
  try {
    const inputNames = ort.stackAlloc(4 * inputs.length);
    const inputValues = ort.stackAlloc(4 * inputs.length);
    const outputNames = ort.stackAlloc(4 * outputs.length);
    const outputValues = ort.stackAlloc(4 * outputs.length);
    inputs.forEach((input, index) => {
      const handle = createTensor(engine, input.spec.name, tensors[input.spec.name], buffers);
      handles.push(handle);
      ort.HEAPU32[(inputNames >>> 2) + index] = input.namePointer;
      ort.HEAPU32[(inputValues >>> 2) + index] = handle;
    });
    outputs.forEach((output, index) => {
      ort.HEAPU32[(outputNames >>> 2) + index] = output.namePointer;
      ort.HEAPU32[(outputValues >>> 2) + index] = 0; // ONNX Runtime allocates it
    });
    engine.checkStatus(
      ort._OrtRun(
        session,
        inputNames,
        inputValues,
        inputs.length,
        outputNames,
        outputs.length,
        outputValues,
        0,
      ),
      "running the model",
    );
    const results = outputs.map((output, index) => {
      const handle = ort.HEAPU32[(outputValues >>> 2) + index] ?? 0;
      handles.push(handle);
      return [output.spec.name, readTensor(engine, output.spec.name, handle)] as const;
    });
    return Object.fromEntries(results);
  } finally {
    for (const handle of handles) ort._OrtReleaseTensor(handle);
    for (const buffer of buffers) ort._free(buffer);
    ort.stackRestore(stack);
  }
}

function createTensor(
  engine: Engine,
  name: string,
  tensor: Tensor | undefined,
  buffers: number[],
): number {
  if (tensor === undefined || tensor.datatype === "BYTES")
    throw coreErrors.invalidTensor(name, "the edge does not support string tensors");
  const { ort } = engine;
  const bytes = byteView(tensor.data);
  const data = ort._malloc(Math.max(bytes.byteLength, 1));
  if (data === 0)
    throw coreErrors.sessionFailed(`out of memory for ${bytes.byteLength} bytes of input ${name}`);
  buffers.push(data);
  ort.HEAPU8.set(bytes, data);
  const shape = ort.stackAlloc(4 * tensor.shape.length);
  tensor.shape.forEach((dimension, axis) => {
    ort.HEAPU32[(shape >>> 2) + axis] = dimension;
  });
  const handle = ort._OrtCreateTensor(
    toOnnxType(tensor.datatype),
    data,
    bytes.byteLength,
    shape,
    tensor.shape.length,
    CPU_MEMORY_LOCATION,
  );
  return engine.checkHandle(handle, `input ${name}`);
}

function readTensor(engine: Engine, name: string, handle: number): Tensor {
  const { ort } = engine;
  const stack = ort.stackSave();
  try {
    const pointer = ort.stackAlloc(16);
    engine.checkStatus(
      ort._OrtGetTensorData(handle, pointer, pointer + 4, pointer + 8, pointer + 12),
      `output ${name}`,
    );
    const [onnxType = 0, data = 0, shapePointer = 0, rank = 0] = ort.HEAPU32.subarray(
      pointer >>> 2,
      (pointer >>> 2) + 4,
    );
    const shape = [...ort.HEAPU32.subarray(shapePointer >>> 2, (shapePointer >>> 2) + rank)];
    ort._OrtFree(shapePointer);
    const datatype = fromOnnxType(onnxType);
    if (datatype === undefined)
      throw coreErrors.sessionFailed(
        `output ${name} has ONNX type ${onnxType}, which cannot be read`,
      );
    const count = shape.reduce((product, dimension) => product * dimension, 1);
    const ArrayType = typedArrays[datatype];
    const bytes = ort.HEAPU8.slice(data, data + count * ArrayType.BYTES_PER_ELEMENT);
    return { datatype, shape, data: new ArrayType(bytes.buffer) } as Tensor;
  } finally {
    ort.stackRestore(stack);
  }
}
