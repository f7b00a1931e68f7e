// Which labels are taken for which.

export interface Confused {
  readonly truth: string;
  readonly answer: string;
  readonly count: number;
}

export interface LabelFigures {
  readonly label: string;
  readonly samples: number;
  /** Share of this label's samples that get it. */
  readonly recall: number;
  /** Share of the answers with this label that are right; absent where it is never answered. */
  readonly precision?: number;
}

export interface Confusion {
  /** Every pair that occurs, right ones as well, the most frequent first. */
  readonly pairs: readonly Confused[];
  /** The worst recall first. */
  readonly labels: readonly LabelFigures[];
}

/** @param answers one per sample, as `truth` */
export function confusionOf(answers: readonly string[], truth: readonly string[]): Confusion {
  const counts = new Map<string, Confused>();
  truth.forEach((label, sample) => {
    const answer = answers[sample] ?? "";
    const key = JSON.stringify([label, answer]);
    counts.set(key, { truth: label, answer, count: (counts.get(key)?.count ?? 0) + 1 });
  });
  const pairs = [...counts.values()].toSorted((a, b) => b.count - a.count);
  const total = (pick: (pair: Confused) => boolean) =>
    pairs.filter(pick).reduce((sum, { count }) => sum + count, 0);
  const labels = [...new Set(truth)].map((label): LabelFigures => {
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
