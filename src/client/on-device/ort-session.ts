// What is used of onnxruntime-web or onnxruntime-react-native, whichever the app brings: pass the package's own exports.

import type { NamedTensors, Tensor } from "../../core/tensor.ts";
import { clientError } from "../errors.ts";

export interface OrtTensor {
  readonly type: string;
  readonly data: unknown;
  readonly dims: readonly number[];
}

export interface OrtSession<AnyTensor> {
  run(feeds: Readonly<Record<string, AnyTensor>>): Promise<Readonly<Record<string, OrtTensor>>>;
}

export interface Ort<AnyTensor extends OrtTensor = OrtTensor> {
  readonly InferenceSession: { create(model: Uint8Array): Promise<OrtSession<AnyTensor>> };
  readonly Tensor: new (
    type: "float32" | "int32" | "int64",
    data: never,
    dims: readonly number[],
  ) => AnyTensor;
}

/** Runs a graph; calls wait for each other, since a session does one thing at a time. */
export type RunGraph = (inputs: NamedTensors) => Promise<NamedTensors>;

const TYPES = { FP32: "float32", INT32: "int32", INT64: "int64" } as const;

export async function createGraphRunner<AnyTensor extends OrtTensor>(
  ort: Ort<AnyTensor>,
  graph: Uint8Array,
): Promise<RunGraph> {
  const session = await ort.InferenceSession.create(graph);
  let last: Promise<unknown> = Promise.resolve();
  return (inputs) => {
    const feeds = Object.fromEntries(
      Object.entries(inputs).map(([name, tensor]) => [name, toOrtTensor(ort, name, tensor)]),
    );
    const run = last.then(() => session.run(feeds)).then(fromOrtOutputs);
    last = run.catch(() => undefined);
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
      `Input ${name} is ${datatype}, which no preprocessor makes.`,
      "",
    );
  return new ort.Tensor(TYPES[datatype], data as never, [...shape]);
}

/** Floats are what an answer is read off; others are left out. */
function fromOrtOutputs(outputs: Readonly<Record<string, OrtTensor>>): NamedTensors {
  const floats = Object.entries(outputs).flatMap(
    ([name, { type, data, dims }]): [string, Tensor][] =>
      type === "float32" && data instanceof Float32Array
        ? [[name, { datatype: "FP32", shape: [...dims], data }]]
        : [],
  );
  return Object.fromEntries(floats);
}
