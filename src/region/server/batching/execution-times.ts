// How long runs of so many rows take, learned from those that were made.

/** The weight of a run against all those of its size before it. */
const WEIGHT = 0.15;

export interface ExecutionTimes {
  learn(rows: number, durationMs: number): void;
  /**
   * Milliseconds; undefined while nothing is known. Between sizes that were run it interpolates. Outside of them it hopes,
   * so that they are tried: larger ones go on along the last line, or cost nothing more where there is none; smaller ones
   * are in proportion.
   */
  estimate(rows: number): number | undefined;
}

export function createExecutionTimes(): ExecutionTimes {
  /** Moving averages, ascending by rows. */
  const known: { readonly rows: number; ms: number }[] = [];

  return {
    learn(rows, durationMs) {
      const index = known.findIndex((one) => one.rows >= rows);
      const found = known[index];
      if (found?.rows === rows) found.ms += WEIGHT * (durationMs - found.ms);
      else known.splice(index === -1 ? known.length : index, 0, { rows, ms: durationMs });
    },

    estimate(rows) {
      const above = known.findIndex((one) => one.rows >= rows);
      const [low, high] = above === -1 ? [known.at(-2), known.at(-1)] : [known[above - 1], known[above]];
      if (high === undefined) return undefined;
      if (low === undefined) return above === -1 ? high.ms : (high.ms * rows) / high.rows;
      const perRow = (high.ms - low.ms) / (high.rows - low.rows);
      return high.ms + (rows - high.rows) * (rows > high.rows ? Math.max(0, perRow) : perRow);
    },
  };
}
