// ONNX Runtime session: runs a graph with the app's own copy of onnxruntime-web or onnxruntime-react-native.

import type { NamedTensors, Tensor } from "../../core/tensor.ts";
import { clientError } from "../errors.ts";

/**
 * Part of ONNX Runtime's `Tensor` that the client reads.
 *
 * @example
 * import type { OrtTensor } from "edgetier/client/on-device";
 *
 * const tensor: OrtTensor = { type: "float32", data: Float32Array.of(1, 2), dims: [1, 2] };
 */
export interface OrtTensor {
  readonly type: string;
  readonly data: unknown;
  readonly dims: readonly number[];
}

export interface OrtSession<AnyTensor> {
  run(feeds: Readonly<Record<string, AnyTensor>>): Promise<Readonly<Record<string, OrtTensor>>>;
}

/**
 * Part of ONNX Runtime that the client calls. The exports of onnxruntime-web and onnxruntime-react-native have it.
 *
 * @example
 * import * as onnxRuntime from "onnxruntime-web/wasm";
 * import type { Ort } from "edgetier/client/on-device";
 *
 * const ort: Ort<onnxRuntime.Tensor> = onnxRuntime;
 */
export interface Ort<AnyTensor extends OrtTensor = OrtTensor> {
  readonly InferenceSession: { create(model: Uint8Array): Promise<OrtSession<AnyTensor>> };
  readonly Tensor: new (
    type: "float32" | "int32" | "int64",
    data: never,
    dims: readonly number[],
  ) => AnyTensor;
}

/** Runs a graph. Concurrent calls are serialized, because a session supports one run at a time. */
export type RunGraph = (inputs: NamedTensors) => Promise<NamedTensors>;

const TYPES = { FP32: "float32", INT32: "int32", INT64: "int64" } as const;

export async function createGraphRunner<AnyTensor extends OrtTensor>(
  ort: Ort<AnyTensor>,
  graph: Uint8Array,
): Promise<RunGraph> {
  const session = await ort.InferenceSession.create(graph);
  let previousRun: Promise<unknown> = Promise.resolve();
  return (inputs) => {
    const feeds = Object.fromEntries(
      Object.entries(inputs).map(([name, tensor]) => [name, toOrtTensor(ort, name, tensor)]),
    );
    const run = previousRun.then(() => session.run(feeds)).then(fromOrtOutputs);
    previousRun = run.catch(() => undefined);
    return run;
  };
}

function toOrtTensor<AnyTensor extends OrtTensor>(
  ort: Ort<AnyTensor>,
  name: string,
  { datatype, data, shape }: Tensor,
): AnyTensor {
  if (datatype !== "FP32" && datatype !== "INT32" && datatype !== "INT64")
    throw clientError(
      "invalid_input",
      `Input ${name} has the datatype ${datatype}; devices support FP32, INT32 and INT64.`,
      "Run the model at the edge.",
    );
  return new ort.Tensor(TYPES[datatype], data as never, [...shape]);
}

/** Keeps only FP32 outputs, because predictions are decoded from them. */
function fromOrtOutputs(outputs: Readonly<Record<string, OrtTensor>>): NamedTensors {
  const floats = Object.entries(outputs).flatMap(
    ([name, { type, data, dims }]): [string, Tensor][] =>
      type === "float32" && data instanceof Float32Array
        ? [[name, { datatype: "FP32", shape: [...dims], data }]]
        : [],
  );
  return Object.fromEntries(floats);
}
