// Estimates the duration of runs by their number of rows, from earlier runs.

/** Minimum weight of a run in the average of its size; the first runs weigh more. */
const WEIGHT = 0.04;
/** Sizes are grouped for averaging: three groups per doubling, so each is about a quarter larger than the last. */
const SIZES_PER_DOUBLING = 3;
/** Assumed possible improvement over a single run, as a share; it shrinks with the square root of the runs. */
const OPTIMISM = 0.3;

export interface ExecutionTimeEstimator {
  record(rows: number, durationMs: number): void;
  /**
   * Returns milliseconds; undefined without runs. Between known sizes it interpolates. Outside of them it is
   * optimistic, so that they are tried. Larger sizes continue the last line, or cost the same without one. Smaller sizes cost
   * in proportion.
   */
  estimateMs(rows: number): number | undefined;
  /**
   * Returns the best plausible duration, which is lower for sizes with fewer runs. A policy that uses it explores what it knows
   * little about (optimism in the face of uncertainty: Auer et al. 2002, Machine Learning 47).
   */
  optimisticEstimateMs(rows: number): number | undefined;
}

interface SizeEstimate {
  rows: number;
  ms: number;
  runs: number;
}

const meanMsOf = ({ ms }: SizeEstimate) => ms;
const optimisticMsOf = ({ ms, runs }: SizeEstimate) => ms * (1 - OPTIMISM / Math.sqrt(runs));

export function createExecutionTimeEstimator(): ExecutionTimeEstimator {
  /** Moving averages, indexed by size group: sparse. */
  const bySize: SizeEstimate[] = [];
  /** The same averages in ascending order, without gaps. */
  let known: readonly SizeEstimate[] = [];

  function interpolateMs(
    rows: number,
    msOf: (estimate: SizeEstimate) => number,
  ): number | undefined {
    const above = known.findIndex((estimate) => estimate.rows >= rows);
    const [low, high] =
      above === -1 ? [known.at(-2), known.at(-1)] : [known[above - 1], known[above]];
    if (high === undefined) return undefined;
    if (low === undefined) return above === -1 ? msOf(high) : (msOf(high) * rows) / high.rows;
    const msPerRow = (msOf(high) - msOf(low)) / (high.rows - low.rows);
    return msOf(high) + (rows - high.rows) * (rows > high.rows ? Math.max(0, msPerRow) : msPerRow);
  }

  return {
    record(rows, durationMs) {
      const size = Math.round(SIZES_PER_DOUBLING * Math.log2(rows));
      const estimate = (bySize[size] ??= { rows, ms: durationMs, runs: 0 });
      if (estimate.runs++ === 0) known = bySize.filter(() => true);
      const weight = Math.max(WEIGHT, 1 / estimate.runs);
      estimate.rows += weight * (rows - estimate.rows);
      estimate.ms += weight * (durationMs - estimate.ms);
    },

    estimateMs: (rows) => interpolateMs(rows, meanMsOf),
    optimisticEstimateMs: (rows) => interpolateMs(rows, optimisticMsOf),
  };
}
