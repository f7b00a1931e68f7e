// The axes of a tensor whose elements stay in their order while its shape changes: Reshape, Flatten, Squeeze, Unsqueeze.

import type { Axes, Axis, ChannelCoupling } from "./channel-coupling.ts";

/** @param reason why an axis is kept that is cut or put together in a way that channels cannot follow */
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

/** The shortest runs of axes that have as many elements before as after. */
function alignSegments(before: readonly number[], after: readonly number[]): Segment[] {
  const found: Segment[] = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    const [start, other] = [i, j];
    let [left, right] = [before[i++] ?? 1, after[j++] ?? 1];
    while (left !== right) {
      if (left < right) left *= before[i++] ?? Number.NaN;
      else if (left > right) right *= after[j++] ?? Number.NaN;
      else return [{ from: [0, before.length], to: [0, after.length] }]; // not of the same size at all
    }
    found.push({
      from: [start, Math.min(i, before.length)],
      to: [other, Math.min(j, after.length)],
    });
  }
  return found;
}

/** An index of one axis becomes several of the merged one, which are removed with it. Of two such axes, there is no telling which. */
function mergeAxes(
  coupling: ChannelCoupling,
  axes: Axes,
  sizes: readonly number[],
  reason: string,
): Axis | undefined {
  const all = axes.filter((axis) => axis !== undefined);
  if (all.length < 2) return all[0];
  const total = sizes.reduce((product, size) => product * size, 1);
  const [carrier, ...others] = all.filter((axis) => coupling.isPrunable(axis));
  if (carrier === undefined || others.length > 0) {
    coupling.freeze(all, reason);
    return coupling.addAxis(total, reason);
  }
  const inner = sizes.slice(axes.indexOf(carrier) + 1).reduce((product, size) => product * size, 1);
  return Int32Array.from(
    { length: total },
    (_, index) => carrier[Math.floor(index / inner) % carrier.length] ?? 0,
  );
}

/** Where all of a block are removed together, blocks are channels; otherwise the places in a block are, and blocks are coupled. */
function splitAxis(
  coupling: ChannelCoupling,
  axis: Axis | undefined,
  sizes: readonly number[],
  reason: string,
): Axes {
  const [size = 1, ...more] = sizes;
  if (axis === undefined) return sizes.map(() => undefined);
  if (sizes.length === 1 || axis.length === size) return [axis, ...more.map(() => undefined)];
  if (size === 1) return [undefined, ...splitAxis(coupling, axis, more, reason)];
  if (!coupling.isPrunable(axis)) return coupling.addAxes(sizes, reason);
  const block = axis.length / size;
  const isCutInBlocks = axis.every(
    (index, at) => coupling.findRoot(index) === coupling.findRoot(axis[at - (at % block)] ?? -1),
  );
  if (isCutInBlocks)
    return [axis.filter((_, at) => at % block === 0), ...coupling.addAxes(more, reason)];
  return [
    coupling.addAxis(size, reason),
    ...splitAxis(coupling, coupling.coupleParts(axis, size), more, reason),
  ];
}
