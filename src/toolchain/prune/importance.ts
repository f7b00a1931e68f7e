// Scores the importance of channels by their weights.

import { readFloats } from "../onnx/tensor-data.ts";
import type { ChannelGroup } from "./channel-groups.ts";
import type { Layer } from "./propagation-rule.ts";
import type { ChannelTrace } from "./trace-channels.ts";

/**
 * Criteria: `l1` and `l2` are norms of a channel's filter (Li et al. 2017, "Pruning Filters for
 * Efficient ConvNets"). `gamma` is the absolute scale in BatchNormalization (Liu et al. 2017,
 * "Learning Efficient Convolutional Networks through Network Slimming").
 */
export const IMPORTANCE_CRITERIA = ["l1", "l2", "gamma"] as const;
export type ImportanceCriterion = (typeof IMPORTANCE_CRITERIA)[number];

/**
 * Scores are normalized to a mean of 1 for each layer, so that layers of any size have the same
 * weight in and between groups. A unit whose weights are all 0 has the score 0.
 * @returns scores in the order of the units; undefined for `gamma` without a BatchNormalization
 */
export function scoreImportance(
  { coupling, scales }: ChannelTrace,
  { layers, units }: ChannelGroup,
  criterion: ImportanceCriterion,
): Float64Array | undefined {
  const positions = new Map(units.map((unit, position) => [unit, position]));
  const magnitudes =
    criterion === "gamma"
      ? scales.map(({ tensor, channels }) => ({
          channels,
          values: Float64Array.from(readFloats(tensor), Math.abs),
        }))
      : layers.map((layer) => ({
          channels: layer.channels,
          values: computeNorms(layer, criterion),
        }));
  const total = new Float64Array(units.length);
  let hasScores = false;
  for (const { channels, values } of magnitudes) {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    channels.forEach((index, channel) => {
      const position = positions.get(coupling.findRoot(index));
      if (position === undefined) return;
      hasScores = true;
      total[position] = (total[position] ?? 0) + (mean === 0 ? 0 : (values[channel] ?? 0) / mean);
    });
  }
  return hasScores ? total : undefined;
}

function computeNorms({ weights, axis, channels }: Layer, criterion: "l1" | "l2"): Float64Array {
  const values = readFloats(weights);
  const inner = weights.dims.slice(axis + 1).reduce((product, size) => product * Number(size), 1);
  const norms = new Float64Array(channels.length);
  for (let index = 0; index < values.length; index++) {
    const [value, channel] = [values[index] ?? 0, Math.floor(index / inner) % channels.length];
    norms[channel] = (norms[channel] ?? 0) + (criterion === "l1" ? Math.abs(value) : value * value);
  }
  return criterion === "l1" ? norms : norms.map(Math.sqrt);
}
