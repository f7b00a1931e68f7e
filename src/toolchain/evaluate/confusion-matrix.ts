// Confusion matrix: counts which labels are mistaken for which, with recall and precision of each label.

export interface ConfusionPair {
  readonly truth: string;
  readonly answer: string;
  readonly count: number;
}

export interface LabelMetrics {
  readonly label: string;
  readonly samples: number;
  /** Share of this label's samples that are answered with it. */
  readonly recall: number;
  /** Share of the answers with this label that are right; absent if no answer has it. */
  readonly precision?: number;
}

export interface ConfusionMatrix {
  /** Every pair that occurs, including right ones, the most frequent first. */
  readonly pairs: readonly ConfusionPair[];
  /** Labels with the worst recall first. */
  readonly labels: readonly LabelMetrics[];
}

/** @param answers one label per sample, in the order of `truth` */
export function computeConfusionMatrix(
  answers: readonly string[],
  truth: readonly string[],
): ConfusionMatrix {
  const counts = new Map<string, ConfusionPair>();
  truth.forEach((label, sample) => {
    const answer = answers[sample] ?? "";
    const key = JSON.stringify([label, answer]);
    counts.set(key, { truth: label, answer, count: (counts.get(key)?.count ?? 0) + 1 });
  });
  const pairs = [...counts.values()].toSorted((a, b) => b.count - a.count);
  const countPairs = (isCounted: (pair: ConfusionPair) => boolean) =>
    pairs.filter(isCounted).reduce((sum, { count }) => sum + count, 0);
  const labels = [...new Set(truth)].map((label): LabelMetrics => {
    const right = countPairs((pair) => pair.truth === label && pair.answer === label);
    const samples = countPairs((pair) => pair.truth === label);
    const answered = countPairs((pair) => pair.answer === label);
    return {
      label,
      samples,
      recall: right / samples,
      ...(answered === 0 ? {} : { precision: right / answered }),
    };
  });
  return { pairs, labels: labels.toSorted((a, b) => a.recall - b.recall) };
}
