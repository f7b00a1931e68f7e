// Channel coupling: a union-find over the indices of all axes of all tensors finds channels that
// pruning can only remove together. Tensors that are added couple index by index, and a depthwise
// convolution couples its output with its input. Fang et al. 2023, "DepGraph: Towards Any
// Structural Pruning", couple whole axes. Coupling single indices handles Concat and Split without
// special cases.

/** One id for each index along an axis. Axes with the same ids keep the same indices. */
export type Axis = Int32Array;

/** Axes of a tensor. An axis of one element is undefined, because it is always kept. */
export type Axes = readonly (Axis | undefined)[];

export class ChannelCoupling {
  readonly #parents: number[] = [];
  /** Reason why the channels of a root are kept, by root. */
  readonly #reasons: (string | undefined)[] = [];

  /** Adds an uncoupled axis. @param reason reason to freeze it; undefined leaves it prunable */
  addAxis(size: number, reason?: string): Axis | undefined {
    return size < 2 ? undefined : this.#add(size, reason);
  }

  /** Adds a frozen axis of any size, including 1, as a part of another axis. */
  addFrozenAxis(size: number, reason: string): Axis {
    return this.#add(size, reason);
  }

  addAxes(shape: readonly number[], reason?: string): Axes {
    return shape.map((size) => this.addAxis(size, reason));
  }

  /** Returns the id that represents all coupled channels. */
  findRoot(index: number): number {
    let root = index;
    for (
      let parent = this.#parents[root] ?? root;
      parent !== root;
      parent = this.#parents[root] ?? root
    ) {
      const next = this.#parents[parent] ?? parent;
      this.#parents[root] = next;
      root = next;
    }
    return root;
  }

  /** Couples two axes of the same length, index by index. @returns either */
  couple(first: Axis | undefined, second: Axis | undefined): Axis | undefined {
    if (first === undefined || second === undefined || first === second) return first ?? second;
    first.forEach((index, position) => this.#joinOne(index, second[position] ?? index));
    return first;
  }

  /**
   * Couples the indices at the same position of each of `parts` equal parts.
   * @returns the first part
   */
  coupleParts(axis: Axis | undefined, parts: number): Axis | undefined {
    if (axis === undefined || parts === 1) return axis;
    const size = axis.length / parts;
    const first = axis.subarray(0, size);
    for (let part = 1; part < parts; part++)
      this.couple(first, axis.subarray(part * size, (part + 1) * size));
    return size < 2 ? undefined : first;
  }

  freeze(axes: Axes, reason: string): void {
    for (const axis of axes)
      for (const index of axis ?? []) this.#reasons[this.findRoot(index)] ??= reason;
  }

  /** Reason why a channel is frozen; undefined for a prunable one. */
  freezeReasonOf(index: number): string | undefined {
    return this.#reasons[this.findRoot(index)];
  }

  /** Whether at least one index of the axis is not frozen. */
  isPrunable(axis: Axis | undefined): axis is Axis {
    return axis !== undefined && axis.some((index) => this.freezeReasonOf(index) === undefined);
  }

  areCoupled(first: Axis, second: Axis): boolean {
    return (
      first.length === second.length &&
      first.every(
        (index, position) => this.findRoot(index) === this.findRoot(second[position] ?? -1),
      )
    );
  }

  #add(size: number, reason: string | undefined): Axis {
    const first = this.#parents.length;
    for (let index = 0; index < size; index++) {
      this.#parents.push(first + index);
      this.#reasons.push(reason);
    }
    return Int32Array.from({ length: size }, (_, index) => first + index);
  }

  #joinOne(first: number, second: number): void {
    const [kept, joined] = [this.findRoot(first), this.findRoot(second)].sort((a, b) => a - b);
    if (kept === undefined || joined === undefined || kept === joined) return;
    this.#parents[joined] = kept;
    this.#reasons[kept] ??= this.#reasons[joined];
  }
}
