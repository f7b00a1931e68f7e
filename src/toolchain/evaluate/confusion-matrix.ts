// Which labels are taken for which.

export interface ConfusionPair {
  readonly truth: string;
  readonly answer: string;
  readonly count: number;
}

export interface LabelMetrics {
  readonly label: string;
  readonly samples: number;
  /** Share of this label's samples that get it. */
  readonly recall: number;
  /** Share of the answers with this label that are right; absent where it is never answered. */
  readonly precision?: number;
}

export interface ConfusionMatrix {
  /** Every pair that occurs, right ones as well, the most frequent first. */
  readonly pairs: readonly ConfusionPair[];
  /** The worst recall first. */
  readonly labels: readonly LabelMetrics[];
}

/** @param answers one per sample, as `truth` */
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
  const total = (pick: (pair: ConfusionPair) => boolean) =>
    pairs.filter(pick).reduce((sum, { count }) => sum + count, 0);
  const labels = [...new Set(truth)].map((label): LabelMetrics => {
    const right = total((pair) => pair.truth === label && pair.answer === label);
    const samples = total((pair) => pair.truth === label);
    const answered = total((pair) => pair.answer === label);
    return {
      label,
      samples,
      recall: right / samples,
      ...(answered === 0 ? {} : { precision: right / answered }),
    };
  });
  return { pairs, labels: labels.toSorted((a, b) => a.recall - b.recall) };
}
