// Counts how often values occur, in memory of fixed size, for range selection. The result does not
// depend on the order of the values.

/** Bins on each side of 0. */
const BINS_PER_SIDE = 4_096;

export class Histogram {
  /** Bin counts from -limit to limit. */
  readonly #counts = new Float64Array(2 * BINS_PER_SIDE);
  /**
   * Smallest power of 2 above all magnitudes, or 0 if all values are 0. Doubling it merges each two
   * bins.
   */
  #limit = 0;
  #low = Number.POSITIVE_INFINITY;
  #high = Number.NEGATIVE_INFINITY;
  #zeros = 0;
  #total = 0;

  get low(): number {
    return this.#low;
  }

  get high(): number {
    return this.#high;
  }

  /** Number of added values. */
  get total(): number {
    return this.#total;
  }

  /** Number of added values that are not 0. */
  get nonZeros(): number {
    return this.#total - this.#zeros;
  }

  /** @returns false, without adding anything, if a value is not finite */
  add(values: Float32Array): boolean {
    let [low, high] = [this.#low, this.#high];
    for (let index = 0; index < values.length; index++) {
      const value = values[index] ?? 0;
      if (value - value !== 0) return false;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    [this.#low, this.#high] = [low, high];
    this.#total += values.length;
    this.#reach(Math.max(-low, high));
    const perUnit = this.#limit === 0 ? 0 : BINS_PER_SIDE / this.#limit;
    let zeros = 0;
    for (let index = 0; index < values.length; index++) {
      const value = values[index] ?? 0;
      if (value === 0) {
        zeros++;
        continue;
      }
      const bin = Math.floor(value * perUnit) + BINS_PER_SIDE;
      this.#counts[bin] = (this.#counts[bin] ?? 0) + 1;
    }
    this.#zeros += zeros;
    return true;
  }

  #reach(magnitude: number): void {
    if (!(magnitude > 0)) return;
    if (this.#limit === 0) {
      this.#limit = 1;
      while (this.#limit / 2 > magnitude) this.#limit /= 2;
      while (this.#limit <= magnitude) this.#limit *= 2;
    }
    for (; this.#limit <= magnitude; this.#limit *= 2) {
      const old = this.#counts.slice();
      this.#counts.fill(0);
      old.forEach((count, bin) => {
        const wider = BINS_PER_SIDE / 2 + (bin >> 1);
        this.#counts[wider] = (this.#counts[wider] ?? 0) + count;
      });
    }
  }

  /** Estimates a quantile, assuming an even distribution within each bin. */
  quantile(share: number): number {
    const width = this.#limit / BINS_PER_SIDE;
    const targetCount = share * this.#total;
    let countBelow = 0;
    for (let bin = 0; bin < 2 * BINS_PER_SIDE; bin++) {
      if (bin === BINS_PER_SIDE) {
        if (this.#zeros > 0 && countBelow + this.#zeros >= targetCount) return 0;
        countBelow += this.#zeros;
      }
      const count = this.#counts[bin] ?? 0;
      if (count > 0 && countBelow + count >= targetCount)
        return this.#clamped(
          (bin - BINS_PER_SIDE + Math.max(0, (targetCount - countBelow) / count)) * width,
        );
      countBelow += count;
    }
    return this.#high;
  }

  /** Sums the squared distances of values below a bound, which must not be positive. */
  squaresBelow(bound: number): number {
    return this.#squares((value) => Math.min(0, value - bound));
  }

  /** Sums the squared distances of values above a bound, which must not be negative. */
  squaresAbove(bound: number): number {
    return this.#squares((value) => Math.max(0, value - bound));
  }

  #squares(distance: (value: number) => number): number {
    const width = this.#limit / BINS_PER_SIDE;
    return this.#counts.reduce(
      (sum, count, bin) =>
        count === 0 ? sum : sum + count * distance((bin - BINS_PER_SIDE + 0.5) * width) ** 2,
      0,
    );
  }

  #clamped(value: number): number {
    return Math.min(this.#high, Math.max(this.#low, value));
  }

  /**
   * Counts magnitudes from 0 to the largest, without zeros, because every scale represents 0
   * exactly.
   * @returns `bins` counts, and the width of a bin
   */
  magnitudes(bins: number): { readonly counts: Float64Array; readonly width: number } {
    const largest = Math.max(-this.#low, this.#high, 0);
    const counts = new Float64Array(bins);
    const width = largest / bins;
    if (!(width > 0)) return { counts, width: 0 };
    const step = this.#limit / BINS_PER_SIDE;
    for (let bin = 0; bin < BINS_PER_SIDE; bin++) {
      const count =
        (this.#counts[BINS_PER_SIDE + bin] ?? 0) + (this.#counts[BINS_PER_SIDE - 1 - bin] ?? 0);
      const target = Math.min(bins - 1, Math.floor(((bin + 0.5) * step) / width));
      counts[target] = (counts[target] ?? 0) + count;
    }
    return { counts, width };
  }
}
