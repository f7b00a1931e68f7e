// Which channels can only be removed together: a union-find over the indices of all axes of all tensors. What is added
// index by index is one channel, a depthwise convolution's output is its input, and so on, through the whole graph.
// Fang et al. 2023, "DepGraph: Towards Any Structural Pruning", has such groups of whole axes; here they are of single
// indices, so that what Concat and Split put together or take apart needs no rule of its own.

/** One number for each index along an axis. Axes of the same numbers keep the same indices. */
export type Axis = Int32Array;

/** Of a tensor. Undefined for an axis of one element, which is always kept. */
export type Axes = readonly (Axis | undefined)[];

export class ChannelCoupling {
  readonly #parents: number[] = [];
  /** Of a root: why its channels are kept. */
  readonly #reasons: (string | undefined)[] = [];

  /** An axis that nothing is known of yet. @param reason why it must stay as it is */
  addAxis(size: number, reason?: string): Axis | undefined {
    return size < 2 ? undefined : this.#add(size, reason);
  }

  /** As a part of another axis: of any size. */
  addFrozenAxis(size: number, reason: string): Axis {
    return this.#add(size, reason);
  }

  addAxes(shape: readonly number[], reason?: string): Axes {
    return shape.map((size) => this.addAxis(size, reason));
  }

  /** The number that stands for all that are removed together. */
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
    first.forEach((index, at) => this.#joinOne(index, second[at] ?? index));
    return first;
  }

  /** Couples the indices that have the same place in each of `parts` equal parts. @returns the first part */
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

  /** Why a channel must be kept; undefined if it need not be. */
  freezeReasonOf(index: number): string | undefined {
    return this.#reasons[this.findRoot(index)];
  }

  /** Whether some of it may still be removed, as far as is known. */
  isPrunable(axis: Axis | undefined): axis is Axis {
    return axis !== undefined && axis.some((index) => this.freezeReasonOf(index) === undefined);
  }

  areCoupled(first: Axis, second: Axis): boolean {
    return (
      first.length === second.length &&
      first.every((index, at) => this.findRoot(index) === this.findRoot(second[at] ?? -1))
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
