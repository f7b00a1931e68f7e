// Distills a graph that takes rows of numbers into small graphs with the same input and output.

import { byteView } from "../../core/bytes.ts";
import { expectFloat32Tensor, type NamedTensors, type TensorSpec } from "../../core/tensor.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { toolchainErrors } from "../errors.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import { softenLogits } from "./soften-logits.ts";
import { createTabularStudent } from "./student.ts";
import { queryTeacher, type Teacher } from "./teacher.ts";
import {
  type OnDistillProgress,
  type DistilledStudents,
  type DistillOptions,
  trainStudents,
} from "./train-students.ts";

export interface TabularSample {
  readonly row: Float32Array;
  /** Position among the outputs; undefined for an unlabeled row. */
  readonly label?: number | undefined;
}

export interface DistillTabularOptions extends DistillOptions {
  /** `cross-entropy` for a teacher with logits, `squares` for a teacher with numeric outputs. */
  readonly loss: "cross-entropy" | "squares";
  readonly cacheFolder?: string | undefined;
}

export interface TabularTeacher extends Teacher<Float32Array> {
  readonly input: TensorSpec;
  readonly output: TensorSpec;
  readonly width: number;
  close(): Promise<void>;
}

const MAX_RANGE_SAMPLES = 512;

/** @throws not_distillable unless the graph maps FP32 rows of one width to rows of one width */
export async function openTabularTeacher(graph: Uint8Array): Promise<TabularTeacher> {
  const session = await createNativeRuntime().createSession(graph);
  const [input, ...otherInputs] = session.inputs;
  const [output, ...otherOutputs] = session.outputs;
  const [width, outputs] = [input, output].map((port) =>
    port?.datatype === "FP32" && port.shape.length === 2 ? (port.shape[1] ?? -1) : -1,
  ) as [number, number];
  if (
    input === undefined ||
    output === undefined ||
    otherInputs.length > 0 ||
    otherOutputs.length > 0 ||
    width < 1 ||
    outputs < 1
  ) {
    const renderPorts = (ports: readonly TensorSpec[]) =>
      ports
        .map(({ name, datatype, shape }) => `${name} ${datatype} [${shape.join(", ")}]`)
        .join(", ");
    await session.dispose();
    throw toolchainErrors.notDistillable(
      `the teacher's inputs are ${renderPorts(session.inputs)} and its outputs are ${renderPorts(session.outputs)}`,
      "A tabular student needs one FP32 input and one FP32 output of shape [rows, numbers]. Cut the graph with `edgetier model import`.",
    );
  }
  const hasVariableBatch = input.shape[0] === -1;
  return {
    digest: sha256HexSync(graph),
    outputs,
    input,
    output,
    width,
    encodeInput: byteView,
    async predict(rows) {
      const predictions = new Float32Array(rows.length * outputs);
      const batchSize = hasVariableBatch ? rows.length : 1;
      for (let start = 0; start < rows.length; start += batchSize) {
        const batch = rows.slice(start, start + batchSize);
        const data = new Float32Array(batch.length * width);
        batch.forEach((row, position) => data.set(row, position * width));
        const tensors = await session.run({
          [input.name]: { datatype: "FP32", shape: [batch.length, width], data },
        });
        predictions.set(
          expectFloat32Tensor(output.name, tensors[output.name], 2).data,
          start * outputs,
        );
      }
      return predictions;
    },
    close: () => session.dispose(),
  };
}

/** Trains students with the teacher's input and output. @throws session_failed, not_quantizable */
export async function distillTabular(
  teacher: TabularTeacher,
  samples: readonly TabularSample[],
  runtime: Runtime,
  options: DistillTabularOptions,
  onProgress: OnDistillProgress = () => {},
): Promise<DistilledStudents> {
  const { loss, temperature, cacheFolder } = options;
  const { width, outputs } = teacher;
  const predictions = await queryTeacher(
    teacher,
    samples.map(({ row }) => row),
    {
      cacheFolder,
      onProgress: (done, total) => onProgress({ step: "teacher", done, total }),
    },
  );
  const names = { input: teacher.input.name, output: teacher.output.name };
  const createStudent = (trainingSamples: readonly TabularSample[]) =>
    createTabularStudent(concatRows(trainingSamples, width), width, outputs, options, names);
  const labeled =
    loss === "squares" ? [] : samples.filter(({ label = outputs }) => label < outputs);
  const rangeStride = Math.ceil(samples.length / MAX_RANGE_SAMPLES);
  const training = {
    student: createStudent(samples),
    targets: {
      softTargets:
        loss === "squares" ? predictions : softenLogits(predictions, outputs, temperature),
      outputs,
      labels: Int32Array.from(samples, ({ label = -1 }) =>
        label < outputs && loss !== "squares" ? label : -1,
      ),
    },
    labelOnlyBaseline:
      labeled.length === 0
        ? undefined
        : {
            student: createStudent(labeled),
            labels: Int32Array.from(labeled, ({ label = 0 }) => label),
          },
    rangeSamples: samples
      .filter((_, sample) => sample % rangeStride === 0)
      .map(({ row }): NamedTensors => ({
        [names.input]: { datatype: "FP32", shape: [1, width], data: row },
      })),
  };
  return await trainStudents(training, runtime, options, onProgress);
}

function concatRows(samples: readonly TabularSample[], width: number): Float32Array {
  const rows = new Float32Array(samples.length * width);
  samples.forEach(({ row }, position) => rows.set(row, position * width));
  return rows;
}
