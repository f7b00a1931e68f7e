// Two versions of a model on the same samples, and whether their difference is more than chance.

import type { Evaluation } from "./evaluate-project.ts";

export interface EvaluationComparison {
  readonly samples: number;
  /** Points of accuracy that the second has more than the first. */
  readonly gainPoints: number;
  /** Samples that only the second gets right, and that only the first does. */
  readonly won: number;
  readonly lost: number;
  /** Of a difference as large as this or larger where the two are equally good: the exact form of McNemar 1947, two-sided. */
  readonly pValue: number;
  /** Share of the samples to which both give the same answer. */
  readonly agreement: number;
  /** The second's mean computing time by the first's, over the cascades' p50 and p99. */
  readonly p50Ratio: number;
  readonly p99Ratio: number;
}

/** @param truth as both were evaluated on */
export function compareEvaluations(
  first: Evaluation,
  second: Evaluation,
  truth: readonly string[],
): EvaluationComparison {
  const right = (evaluation: Evaluation, sample: number) =>
    evaluation.answers[sample] === truth[sample];
  const samples = truth.map((_, sample) => sample);
  const won = samples.filter((sample) => right(second, sample) && !right(first, sample)).length;
  const lost = samples.filter((sample) => right(first, sample) && !right(second, sample)).length;
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

/** A coin thrown `won + lost` times: as uneven as this or more. */
export function mcnemarPValue(won: number, lost: number): number {
  const throws = won + lost;
  let logWays = 0; // of the binomial coefficient
  let tail = 0;
  for (let heads = 0; heads <= Math.min(won, lost); heads++) {
    if (heads > 0) logWays += Math.log(throws - heads + 1) - Math.log(heads);
    tail += Math.exp(logWays - throws * Math.LN2);
  }
  return Math.min(1, 2 * tail);
}
