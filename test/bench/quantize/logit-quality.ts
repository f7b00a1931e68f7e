// Quality of a quantized graph's logits, compared with the labels and with the FP32 logits.
import { expectFloat32Tensor, type NamedTensors } from "../../../src/core/tensor.ts";
import type { Runtime } from "../../../src/runtime/runtime.ts";

// A type alias, because an interface is not assignable to a row's index signature.
export type LogitQuality = {
  /** Share of labeled samples that get their label. */
  readonly accuracy?: number;
  /** Points of accuracy lost against FP32. */
  readonly lossPoints?: number;
  /** Share of all samples with the same class as in FP32. */
  readonly agreement: number;
  /** Signal-to-quantization-noise ratio in dB; 200 without noise. */
  readonly sqnrDb: number;
  readonly maxAbsDifference: number;
};

/** Computes the logits of each sample in its own run. */
export async function collectLogits(
  runtime: Runtime,
  graph: Uint8Array,
  questions: readonly NamedTensors[],
): Promise<Float32Array[]> {
  const session = await runtime.createSession(graph);
  const answers: Float32Array[] = [];
  for (const inputs of questions)
    answers.push(expectFloat32Tensor("logits", (await session.run(inputs))["logits"], 2).data);
  await session.dispose();
  return answers;
}

export function computeLogitQuality(
  answers: readonly Float32Array[],
  reference: readonly Float32Array[],
  labels: readonly number[] | undefined,
): LogitQuality {
  let [signal, noise, largest, agreeing] = [0, 0, 0, 0];
  answers.forEach((row, position) => {
    const expected = reference[position] ?? new Float32Array(row.length);
    if (argmax(row) === argmax(expected)) agreeing++;
    row.forEach((value, index) => {
      const difference = Math.abs(value - (expected[index] ?? Number.NaN));
      signal += (expected[index] ?? 0) ** 2;
      noise += difference ** 2;
      largest = Math.max(largest, difference);
    });
  });
  const share = (rows: readonly Float32Array[]) => {
    const labeled = [...(labels ?? []).entries()].filter(([, label]) => label >= 0);
    return (
      labeled.filter(([position, label]) => argmax(rows[position] ?? new Float32Array()) === label)
        .length / labeled.length
    );
  };
  const byLabel =
    labels === undefined
      ? {}
      : { accuracy: share(answers), lossPoints: 100 * (share(reference) - share(answers)) };
  return {
    ...byLabel,
    agreement: agreeing / answers.length,
    sqnrDb: noise === 0 ? 200 : 10 * Math.log10(signal / noise),
    maxAbsDifference: largest,
  };
}

const argmax = (row: Float32Array): number =>
  row.reduce((best, value, index) => (value > (row[best] ?? 0) ? index : best), 0);
