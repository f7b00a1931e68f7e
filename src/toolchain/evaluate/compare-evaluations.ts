// Compares two versions of a model on the same samples, and tests whether their difference is significant.

import type { Evaluation } from "./evaluate-project.ts";

export interface EvaluationComparison {
  readonly samples: number;
  /** Accuracy of the second minus that of the first, in points. */
  readonly gainPoints: number;
  /** Number of samples that only the second gets right. */
  readonly won: number;
  /** Number of samples that only the first gets right. */
  readonly lost: number;
  /** Probability of at least this difference if both are equally good: the exact two-sided test of McNemar 1947. */
  readonly pValue: number;
  /** Share of the samples with the same answer from both. */
  readonly agreement: number;
  /** The second cascade's p50 computing time, divided by the first's. */
  readonly p50Ratio: number;
  /** The second cascade's p99 computing time, divided by the first's. */
  readonly p99Ratio: number;
}

/** @param truth the right labels of the samples that both were evaluated on */
export function compareEvaluations(
  first: Evaluation,
  second: Evaluation,
  truth: readonly string[],
): EvaluationComparison {
  const isRight = (evaluation: Evaluation, sample: number) =>
    evaluation.answers[sample] === truth[sample];
  const samples = truth.map((_, sample) => sample);
  const won = samples.filter((sample) => isRight(second, sample) && !isRight(first, sample)).length;
  const lost = samples.filter(
    (sample) => isRight(first, sample) && !isRight(second, sample),
  ).length;
  return {
    samples: truth.length,
    gainPoints: (100 * (won - lost)) / truth.length,
    won,
    lost,
    pValue: mcnemarPValue(won, lost),
    agreement:
      samples.filter((sample) => first.answers[sample] === second.answers[sample]).length /
      truth.length,
    p50Ratio: second.cascadeLatency.p50Ms / first.cascadeLatency.p50Ms,
    p99Ratio: second.cascadeLatency.p99Ms / first.cascadeLatency.p99Ms,
  };
}

/** Computes how likely `won + lost` coin tosses are at least as uneven as this. */
export function mcnemarPValue(won: number, lost: number): number {
  const tosses = won + lost;
  let logBinomial = 0;
  let tail = 0;
  for (let heads = 0; heads <= Math.min(won, lost); heads++) {
    if (heads > 0) logBinomial += Math.log(tosses - heads + 1) - Math.log(heads);
    tail += Math.exp(logBinomial - tosses * Math.LN2);
  }
  return Math.min(1, 2 * tail);
}
