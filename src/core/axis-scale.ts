// Computes the range and the ticks of a chart axis, at round numbers.

export interface AxisScale {
  readonly min: number;
  readonly max: number;
  readonly ticks: readonly number[];
}

/** Includes 20, because 10 is too small when both ends lie slightly beyond a step. */
const STEP_MULTIPLES = [1, 2, 2.5, 5, 10, 20] as const;
const MAX_STEPS = 5;

/** Returns the smallest scale of round steps that contains both values. @param largest greater than `smallest` */
export function computeAxisScale(smallest: number, largest: number): AxisScale {
  const roughStep = (largest - smallest) / MAX_STEPS;
  const power = 10 ** Math.floor(Math.log10(roughStep));
  const step =
    STEP_MULTIPLES.map((multiple) => multiple * power).find(
      (size) => Math.ceil(largest / size - 1e-9) - Math.floor(smallest / size + 1e-9) <= MAX_STEPS,
    ) ?? 20 * power;
  const [first, last] = [Math.floor(smallest / step + 1e-9), Math.ceil(largest / step - 1e-9)];
  const valueAt = (tick: number) => Number((tick * step).toPrecision(12));
  return {
    min: valueAt(first),
    max: valueAt(last),
    ticks: Array.from({ length: last - first + 1 }, (_, index) => valueAt(first + index)),
  };
}
