// How long runs of so many rows take, learned from those that were made.

/** The weight of a run against all those of about its size before it; more while these are few. */
const WEIGHT = 0.04;
/** Sizes that are averaged together: from one to the next it is a quarter more. */
const SIZES_PER_DOUBLING = 3;
/** What a size may be better than its only run, as a share; by the square root of the runs, less. */
const OPTIMISM = 0.3;

export interface ExecutionTimeEstimator {
  record(rows: number, durationMs: number): void;
  /**
   * Milliseconds; undefined while nothing is known. Between sizes that were run it interpolates. Outside of them it hopes,
   * so that they are tried: larger ones go on along the last line, or cost nothing more where there is none; smaller ones
   * are in proportion.
   */
  estimateMs(rows: number): number | undefined;
  /**
   * What it may be at best: the fewer its runs, the lower. Who goes by that tries what he knows little of (optimism in the
   * face of uncertainty: Auer et al. 2002, Machine Learning 47).
   */
  optimisticEstimateMs(rows: number): number | undefined;
}

interface SizeEstimate {
  rows: number;
  ms: number;
  runs: number;
}

const meanOf = ({ ms }: SizeEstimate) => ms;
const optimisticMeanOf = ({ ms, runs }: SizeEstimate) => ms * (1 - OPTIMISM / Math.sqrt(runs));

export function createExecutionTimeEstimator(): ExecutionTimeEstimator {
  /** Moving averages of runs of similar sizes, by size: sparse. */
  const bySize: SizeEstimate[] = [];
  /** The same, ascending. */
  let known: readonly SizeEstimate[] = [];

  function at(rows: number, msOf: (one: SizeEstimate) => number): number | undefined {
    const above = known.findIndex((one) => one.rows >= rows);
    const [low, high] =
      above === -1 ? [known.at(-2), known.at(-1)] : [known[above - 1], known[above]];
    if (high === undefined) return undefined;
    if (low === undefined) return above === -1 ? msOf(high) : (msOf(high) * rows) / high.rows;
    const perRow = (msOf(high) - msOf(low)) / (high.rows - low.rows);
    return msOf(high) + (rows - high.rows) * (rows > high.rows ? Math.max(0, perRow) : perRow);
  }

  return {
    record(rows, durationMs) {
      const size = Math.round(SIZES_PER_DOUBLING * Math.log2(rows));
      const one = (bySize[size] ??= { rows, ms: durationMs, runs: 0 });
      if (one.runs++ === 0) known = bySize.filter(() => true);
      const weight = Math.max(WEIGHT, 1 / one.runs);
      one.rows += weight * (rows - one.rows);
      one.ms += weight * (durationMs - one.ms);
    },

    estimateMs: (rows) => at(rows, meanOf),
    optimisticEstimateMs: (rows) => at(rows, optimisticMeanOf),
  };
}
