// Distils a graph that takes rows of numbers into a small one that takes the same.

import { toolchainErrors } from "../errors.ts";
import { expectFloat32Tensor, type NamedTensors, type TensorSpec } from "../../core/tensor.ts";
import { byteView } from "../../core/bytes.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import { softenLogits } from "./soften-logits.ts";
import { createTabularStudent } from "./student.ts";
import {
  type OnDistillProgress,
  type DistilledStudents,
  type DistillOptions,
  trainStudents,
} from "./train-students.ts";
import { queryTeacher, type Teacher } from "./teacher.ts";

export interface TabularSample {
  readonly row: Float32Array;
  /** Position among the outputs; undefined where nobody has said it. */
  readonly label?: number | undefined;
}

export interface DistillTabularOptions extends DistillOptions {
  /** `cross-entropy` for a teacher that gives logits, `squares` for one that gives numbers. */
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

/** @throws not_distillable unless it takes FP32 rows of one width, and gives rows of one width */
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
    const shown = (ports: readonly TensorSpec[]) =>
      ports
        .map(({ name, datatype, shape }) => `${name} ${datatype} [${shape.join(", ")}]`)
        .join(", ");
    await session.dispose();
    throw toolchainErrors.notDistillable(
      `the teacher takes ${shown(session.inputs)} and gives ${shown(session.outputs)}`,
      "A tabular student needs one with one input and one output, FP32 [rows, numbers]: cut it with `edgetier model import`.",
    );
  }
  const atOnce = input.shape[0] === -1;
  return {
    digest: sha256HexSync(graph),
    outputs,
    input,
    output,
    width,
    encodeInput: byteView,
    async predict(rows) {
      const answers = new Float32Array(rows.length * outputs);
      const step = atOnce ? rows.length : 1;
      for (let start = 0; start < rows.length; start += step) {
        const part = rows.slice(start, start + step);
        const data = new Float32Array(part.length * width);
        part.forEach((row, position) => data.set(row, position * width));
        const given = await session.run({
          [input.name]: { datatype: "FP32", shape: [part.length, width], data },
        });
        answers.set(expectFloat32Tensor(output.name, given[output.name], 2).data, start * outputs);
      }
      return answers;
    },
    close: () => session.dispose(),
  };
}

/** The students take and give what the teacher does. @throws session_failed, not_quantizable */
export async function distillTabular(
  teacher: TabularTeacher,
  samples: readonly TabularSample[],
  runtime: Runtime,
  options: DistillTabularOptions,
  onProgress: OnDistillProgress = () => {},
): Promise<DistilledStudents> {
  const { loss, temperature, cacheFolder: cache } = options;
  const { width, outputs } = teacher;
  const answers = await queryTeacher(
    teacher,
    samples.map(({ row }) => row),
    {
      cacheFolder: cache,
      onProgress: (done, of) => onProgress({ step: "teacher", done, total: of }),
    },
  );
  const names = { input: teacher.input.name, output: teacher.output.name };
  const studentOn = (own: readonly TabularSample[]) =>
    createTabularStudent(concatRows(own, width), width, outputs, options, names);
  const labelled =
    loss === "squares" ? [] : samples.filter(({ label = outputs }) => label < outputs);
  const step = Math.ceil(samples.length / MAX_RANGE_SAMPLES);
  const lessons = {
    student: studentOn(samples),
    targets: {
      softTargets: loss === "squares" ? answers : softenLogits(answers, outputs, temperature),
      outputs,
      labels: Int32Array.from(samples, ({ label = -1 }) =>
        label < outputs && loss !== "squares" ? label : -1,
      ),
    },
    labelOnlyBaseline:
      labelled.length === 0
        ? undefined
        : {
            student: studentOn(labelled),
            labels: Int32Array.from(labelled, ({ label = 0 }) => label),
          },
    rangeSamples: samples
      .filter((_, sample) => sample % step === 0)
      .map(({ row }): NamedTensors => ({
        [names.input]: { datatype: "FP32", shape: [1, width], data: row },
      })),
  };
  return await trainStudents(lessons, runtime, options, onProgress);
}

function concatRows(samples: readonly TabularSample[], width: number): Float32Array {
  const rows = new Float32Array(samples.length * width);
  samples.forEach(({ row }, position) => rows.set(row, position * width));
  return rows;
}
