// Evaluation set: samples as a tier's input tensors, one row each, with their right labels. A tier's candidates are scored
// on it.

import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../core/tensor.ts";
import type { Preprocessor } from "../../tasks/task.ts";
import { argmax } from "../argmax.ts";
import type { LabeledSample } from "./labeled-samples.ts";
import type { RunnerSession } from "./runner.ts";

export interface EncodedSample {
  readonly inputs: NamedTensors;
  /** Position of the right label; -1 if the model does not have it, for example if the sample is out of scope. */
  readonly label: number;
}

export function encodeSamples(
  samples: readonly LabeledSample[],
  preprocessor: Preprocessor,
  labels: readonly string[],
): EncodedSample[] {
  const positions = new Map(labels.map((label, position) => [label, position]));
  return samples.map(({ input, label }) => ({
    inputs: preprocessor.encode([input]),
    label: positions.get(label) ?? -1,
  }));
}

/**
 * Computes a graph's logits of every sample, one run each. In a batch, a graph that rounds to 8 bits may give a row other
 * logits, depending on the other rows.
 */
export async function computeLogits(
  session: RunnerSession,
  samples: readonly EncodedSample[],
  onProgress: (done: number) => void = () => {},
): Promise<Float32Array[]> {
  const rows: Float32Array[] = [];
  for (const { inputs } of samples) {
    const logits = expectFloat32Tensor(
      LOGITS_OUTPUT,
      (await session.run(inputs))[LOGITS_OUTPUT],
      2,
    ).data;
    if (!logits.every(Number.isFinite))
      throw coreErrors.sessionFailed(`the logits of sample ${rows.length} are not all finite`);
    rows.push(logits);
    onProgress(rows.length);
  }
  return rows;
}

export interface CandidateScore {
  /** Share of the in-scope samples whose largest logit belongs to the right label. */
  readonly accuracy: number;
  /** Share of all samples whose largest logit belongs to the reference's label. */
  readonly agreement: number;
  /** Loss of accuracy against the reference, in points. */
  readonly lossPoints: number;
  /** Number of samples that the reference gets right and the candidate wrong. */
  readonly lost: number;
  /** Number of samples that the reference gets wrong and the candidate right. */
  readonly won: number;
  /** Signal-to-quantization-noise ratio of the logits: 10 log10(Σ reference² / Σ difference²); infinite if they are equal. */
  readonly sqnrDb: number;
}

/** @throws RangeError unless there are logits and reference logits of every sample */
export function scoreLogits(
  samples: readonly EncodedSample[],
  logits: readonly Float32Array[],
  reference: readonly Float32Array[],
): CandidateScore {
  if (logits.length !== samples.length || reference.length !== samples.length)
    throw new RangeError(
      `${logits.length} rows of logits and ${reference.length} of reference logits; expected ${samples.length}`,
    );
  const predicted = logits.map(argmax);
  const expected = reference.map(argmax);
  const inScope = [...samples.entries()].filter(([, { label }]) => label >= 0);
  const count = (isCounted: (position: number, label: number) => boolean) =>
    inScope.filter(([position, { label }]) => isCounted(position, label)).length;
  const isRight = (position: number, label: number) => predicted[position] === label;
  const isReferenceRight = (position: number, label: number) => expected[position] === label;
  const lost = count((...sample) => isReferenceRight(...sample) && !isRight(...sample));
  const won = count((...sample) => !isReferenceRight(...sample) && isRight(...sample));
  return {
    accuracy: count(isRight) / Math.max(1, inScope.length),
    agreement:
      predicted.filter((label, position) => label === expected[position]).length /
      Math.max(1, predicted.length),
    lossPoints: (100 * (lost - won)) / Math.max(1, inScope.length),
    lost,
    won,
    sqnrDb: computeSqnrDb(logits, reference),
  };
}

function computeSqnrDb(
  logits: readonly Float32Array[],
  reference: readonly Float32Array[],
): number {
  let [signal, noise] = [0, 0];
  reference.forEach((row, position) => {
    row.forEach((value, index) => {
      signal += value ** 2;
      noise += (value - (logits[position]?.[index] ?? 0)) ** 2;
    });
  });
  return 10 * Math.log10(signal / noise);
}
