// How much a channel matters, by its weights.

import { readFloats } from "../onnx/tensor-data.ts";
import type { ChannelGroup } from "./channel-groups.ts";
import type { Layer } from "./propagation-rule.ts";
import type { ChannelTrace } from "./trace-channels.ts";

/**
 * `l1` and `l2`: the norm of a channel's filter, Li et al. 2017, "Pruning Filters for Efficient ConvNets". `gamma`: the size of
 * the scale that BatchNormalization gives it, Liu et al. 2017, "Learning Efficient Convolutional Networks through Network
 * Slimming".
 */
export const IMPORTANCE_CRITERIA = ["l1", "l2", "gamma"] as const;
export type ImportanceCriterion = (typeof IMPORTANCE_CRITERIA)[number];

/**
 * Of a group's units, in their order. A layer's channels have 1 on average, so that layers of any size count the same, in
 * a group and between groups. 0 where all weights of a unit are 0.
 * @returns undefined if there is nothing to tell it by: `gamma` without a BatchNormalization
 */
export function scoreImportance(
  { coupling, scales }: ChannelTrace,
  { layers, units }: ChannelGroup,
  kind: ImportanceCriterion,
): Float64Array | undefined {
  const own = new Map(units.map((unit, position) => [unit, position]));
  const measured =
    kind === "gamma"
      ? scales.map(({ tensor, channels }) => ({
          channels,
          sizes: Float64Array.from(readFloats(tensor), Math.abs),
        }))
      : layers.map((layer) => ({ channels: layer.channels, sizes: computeNorms(layer, kind) }));
  const total = new Float64Array(units.length);
  let found = false;
  for (const { channels, sizes } of measured) {
    const mean = sizes.reduce((sum, size) => sum + size, 0) / sizes.length;
    channels.forEach((index, channel) => {
      const position = own.get(coupling.findRoot(index));
      if (position === undefined) return;
      found = true;
      total[position] = (total[position] ?? 0) + (mean === 0 ? 0 : (sizes[channel] ?? 0) / mean);
    });
  }
  return found ? total : undefined;
}

function computeNorms({ weights, axis, channels }: Layer, kind: "l1" | "l2"): Float64Array {
  const values = readFloats(weights);
  const inner = weights.dims.slice(axis + 1).reduce((product, size) => product * Number(size), 1);
  const norms = new Float64Array(channels.length);
  for (let index = 0; index < values.length; index++) {
    const [value, channel] = [values[index] ?? 0, Math.floor(index / inner) % channels.length];
    norms[channel] = (norms[channel] ?? 0) + (kind === "l1" ? Math.abs(value) : value * value);
  }
  return kind === "l1" ? norms : norms.map(Math.sqrt);
}
