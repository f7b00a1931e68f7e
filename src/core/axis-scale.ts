// An axis' ends and ticks, at numbers that are easily read.

export interface AxisScale {
  readonly min: number;
  readonly max: number;
  readonly ticks: readonly number[];
}

const STEP_MULTIPLES = [1, 2, 2.5, 5, 10, 20] as const; // 20: where both ends lie just beyond a step of 10
const MAX_STEPS = 5;

/** The smallest scale of round steps that holds both. @param most above `least` */
export function computeAxisScale(least: number, most: number): AxisScale {
  const rough = (most - least) / MAX_STEPS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    STEP_MULTIPLES.map((one) => one * power).find(
      (one) => Math.ceil(most / one - 1e-9) - Math.floor(least / one + 1e-9) <= MAX_STEPS,
    ) ?? 20 * power;
  const [first, last] = [Math.floor(least / step + 1e-9), Math.ceil(most / step - 1e-9)];
  const at = (tick: number) => Number((tick * step).toPrecision(12));
  return {
    min: at(first),
    max: at(last),
    ticks: Array.from({ length: last - first + 1 }, (_, index) => at(first + index)),
  };
}
