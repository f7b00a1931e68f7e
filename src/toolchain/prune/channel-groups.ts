// Channel groups: collects the channels that the same layers produce, so that one ranking applies
// to all of them. A chain of residual blocks is one group, because Add couples its layers channel
// by channel.

import { displayNameOf } from "../onnx/nodes.ts";
import type { Layer } from "./propagation-rule.ts";
import type { ChannelTrace } from "./trace-channels.ts";

export interface ChannelGroup {
  /** Name of the first layer, with a number if it is taken. */
  readonly name: string;
  readonly layers: readonly Layer[];
  /**
   * Representatives of coupled channels. A unit has one channel of each layer, or several if a
   * convolution has groups.
   */
  readonly units: readonly number[];
  /** Distinct numbers of channels that a unit has in a tensor. */
  readonly channelsPerUnit: readonly number[];
}

/** A layer without prunable channels. */
export interface UnprunableLayer {
  readonly layer: string;
  readonly op: string;
  readonly channels: number;
  readonly reason: string;
}

export interface ChannelGroups {
  readonly groups: readonly ChannelGroup[];
  readonly unprunable: readonly UnprunableLayer[];
}

export function findChannelGroups({ coupling, layers, nonEmptyAxes }: ChannelTrace): ChannelGroups {
  const axisCounts = countPrunableChannels({ coupling, nonEmptyAxes });
  const layerRoots = layers.map(({ channels }) => [
    ...new Set(channels.map((index) => coupling.findRoot(index))),
  ]);
  const layersByRoot = new Map<number, Layer[]>();
  layers.forEach((layer, position) => {
    for (const root of layerRoots[position] ?? [])
      if (axisCounts.has(root)) layersByRoot.set(root, [...(layersByRoot.get(root) ?? []), layer]);
  });

  // Units with the same signature lie in the same axes, so that the rest of a group is a known part
  // of each axis.
  const signatureOf = (root: number) =>
    [...(axisCounts.get(root) ?? [])].map(([axis, count]) => `${axis}*${count}`).join(" ");
  const nameCounts = new Map<string, number>();
  const groups = [...Map.groupBy(layersByRoot.keys(), signatureOf).values()].map(
    (units): ChannelGroup => {
      const [firstUnit = 0] = units;
      const groupLayers = layersByRoot.get(firstUnit) ?? [];
      const [name = ""] = groupLayers.map(({ node }) => displayNameOf(node));
      const number = (nameCounts.get(name) ?? 0) + 1;
      nameCounts.set(name, number);
      return {
        name: number === 1 ? name : `${name} (${number})`,
        layers: groupLayers,
        units,
        channelsPerUnit: [...new Set(axisCounts.get(firstUnit)?.values())],
      };
    },
  );
  const unprunable = layers
    .filter((_, position) => layerRoots[position]?.some((root) => layersByRoot.has(root)) !== true)
    .map(({ node, channels }): UnprunableLayer => ({
      layer: displayNameOf(node),
      op: node.opType,
      channels: channels.length,
      reason: coupling.freezeReasonOf(channels[0] ?? -1) ?? "",
    }));
  return { groups, unprunable };
}

/** Counts the channels of each prunable root, by the position of the axis. */
function countPrunableChannels({
  coupling,
  nonEmptyAxes,
}: Pick<ChannelTrace, "coupling" | "nonEmptyAxes">): ReadonlyMap<
  number,
  ReadonlyMap<number, number>
> {
  const countsByRoot = new Map<number, Map<number, number>>();
  nonEmptyAxes.forEach((axis, position) => {
    for (const index of axis) {
      const root = coupling.findRoot(index);
      if (coupling.freezeReasonOf(root) !== undefined) continue;
      const counts = countsByRoot.get(root) ?? new Map<number, number>();
      countsByRoot.set(root, counts.set(position, (counts.get(position) ?? 0) + 1));
    }
  });
  return countsByRoot;
}
