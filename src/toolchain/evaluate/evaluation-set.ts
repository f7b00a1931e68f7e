// What a tier's candidates are examined on: samples as the tier's tensors, one row each, with the labels they should get.

import { coreErrors } from "../../core/common-errors.ts";
import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../core/tensor.ts";
import type { Preprocessor } from "../../tasks/task.ts";
import { argmax } from "../argmax.ts";
import type { RunnerSession } from "./runner.ts";
import type { LabeledSample } from "./labeled-samples.ts";

export interface EncodedSample {
  readonly inputs: NamedTensors;
  /** Position among the labels; -1 where the right label is none of them, as of what is out of scope. */
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

/** One graph's logits to every question, one run each: what a graph rounds to 8 bits may depend on the rows beside. */
export async function computeLogits(
  session: RunnerSession,
  questions: readonly EncodedSample[],
  onProgress: (done: number) => void = () => {},
): Promise<Float32Array[]> {
  const answers: Float32Array[] = [];
  for (const { inputs } of questions) {
    const logits = expectFloat32Tensor(
      LOGITS_OUTPUT,
      (await session.run(inputs))[LOGITS_OUTPUT],
      2,
    ).data;
    if (!logits.every(Number.isFinite))
      throw coreErrors.sessionFailed(`the logits of sample ${answers.length} are not all finite`);
    answers.push(logits);
    onProgress(answers.length);
  }
  return answers;
}

export interface CandidateScore {
  /** Share of the samples in scope whose largest logit is that of the right label. */
  readonly accuracy: number;
  /** Share of all samples for which it is the same label as the reference's. */
  readonly agreement: number;
  /** Points of accuracy that are lost against the reference. */
  readonly lossPoints: number;
  /** Samples that the reference got right and this one not, and the other way round: what the loss is the difference of. */
  readonly lost: number;
  readonly won: number;
  /** Signal to quantisation noise of the logits: 10 log10(Σ reference² / Σ difference²); infinite where they are the same. */
  readonly sqnrDb: number;
}

/** @throws RangeError unless both answered every question */
export function scoreLogits(
  questions: readonly EncodedSample[],
  answers: readonly Float32Array[],
  reference: readonly Float32Array[],
): CandidateScore {
  if (answers.length !== questions.length || reference.length !== questions.length)
    throw new RangeError(
      `${answers.length} and ${reference.length} answers to ${questions.length} questions`,
    );
  const best = answers.map(argmax);
  const wanted = reference.map(argmax);
  const inScope = [...questions.entries()].filter(([, { label }]) => label >= 0);
  const count = (isCounted: (position: number, label: number) => boolean) =>
    inScope.filter(([position, { label }]) => isCounted(position, label)).length;
  const lost = count((position, label) => wanted[position] === label && best[position] !== label);
  const won = count((position, label) => wanted[position] !== label && best[position] === label);
  return {
    accuracy: count((position, label) => best[position] === label) / Math.max(1, inScope.length),
    agreement:
      best.filter((label, position) => label === wanted[position]).length /
      Math.max(1, best.length),
    lossPoints: (100 * (lost - won)) / Math.max(1, inScope.length),
    lost,
    won,
    sqnrDb: computeSqnrDb(answers, reference),
  };
}

function computeSqnrDb(
  answers: readonly Float32Array[],
  reference: readonly Float32Array[],
): number {
  let [signal, noise] = [0, 0];
  reference.forEach((row, position) => {
    row.forEach((value, index) => {
      signal += value ** 2;
      noise += (value - (answers[position]?.[index] ?? 0)) ** 2;
    });
  });
  return 10 * Math.log10(signal / noise);
}
