// Maps axes through operators that change a tensor's shape but not its order: Reshape, Flatten,
// Squeeze, Unsqueeze.

import type { Axes, Axis, ChannelCoupling } from "./channel-coupling.ts";

/**
 * @param reason freeze reason of axes that are split or merged in a way that channels cannot follow
 */
export function reshapeAxes(
  coupling: ChannelCoupling,
  axes: Axes,
  before: readonly number[],
  after: readonly number[],
  reason: string,
): Axes {
  return alignSegments(before, after).flatMap(({ from, to }) => {
    const merged = mergeAxes(coupling, axes.slice(...from), before.slice(...from), reason);
    return splitAxis(coupling, merged, after.slice(...to), reason);
  });
}

interface Segment {
  readonly from: readonly [start: number, end: number];
  readonly to: readonly [start: number, end: number];
}

/** Finds the shortest runs of axes with the same number of elements before and after. */
function alignSegments(before: readonly number[], after: readonly number[]): Segment[] {
  const segments: Segment[] = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    const [fromStart, toStart] = [i, j];
    let [left, right] = [before[i++] ?? 1, after[j++] ?? 1];
    while (left !== right) {
      if (left < right) left *= before[i++] ?? Number.NaN;
      else if (left > right) right *= after[j++] ?? Number.NaN;
      else return [{ from: [0, before.length], to: [0, after.length] }]; // The total sizes differ.
    }
    segments.push({
      from: [fromStart, Math.min(i, before.length)],
      to: [toStart, Math.min(j, after.length)],
    });
  }
  return segments;
}

/**
 * Merges axes. Each index of the one prunable axis becomes several indices, which are removed
 * together. With two prunable axes, the origin of an index is ambiguous, so both are frozen.
 */
function mergeAxes(
  coupling: ChannelCoupling,
  axes: Axes,
  sizes: readonly number[],
  reason: string,
): Axis | undefined {
  const definedAxes = axes.filter((axis) => axis !== undefined);
  if (definedAxes.length < 2) return definedAxes[0];
  const total = sizes.reduce((product, size) => product * size, 1);
  const [carrier, ...others] = definedAxes.filter((axis) => coupling.isPrunable(axis));
  if (carrier === undefined || others.length > 0) {
    coupling.freeze(definedAxes, reason);
    return coupling.addAxis(total, reason);
  }
  const inner = sizes.slice(axes.indexOf(carrier) + 1).reduce((product, size) => product * size, 1);
  return Int32Array.from(
    { length: total },
    (_, index) => carrier[Math.floor(index / inner) % carrier.length] ?? 0,
  );
}

/**
 * Splits an axis into blocks. If the indices of each block are coupled, the blocks are channels.
 * Otherwise the positions in a block are channels, and the blocks are coupled.
 */
function splitAxis(
  coupling: ChannelCoupling,
  axis: Axis | undefined,
  sizes: readonly number[],
  reason: string,
): Axes {
  const [size = 1, ...innerSizes] = sizes;
  if (axis === undefined) return sizes.map(() => undefined);
  if (sizes.length === 1 || axis.length === size) return [axis, ...innerSizes.map(() => undefined)];
  if (size === 1) return [undefined, ...splitAxis(coupling, axis, innerSizes, reason)];
  if (!coupling.isPrunable(axis)) return coupling.addAxes(sizes, reason);
  const block = axis.length / size;
  const areBlocksCoupled = axis.every(
    (index, position) =>
      coupling.findRoot(index) === coupling.findRoot(axis[position - (position % block)] ?? -1),
  );
  if (areBlocksCoupled)
    return [
      axis.filter((_, position) => position % block === 0),
      ...coupling.addAxes(innerSizes, reason),
    ];
  return [
    coupling.addAxis(size, reason),
    ...splitAxis(coupling, coupling.coupleParts(axis, size), innerSizes, reason),
  ];
}
