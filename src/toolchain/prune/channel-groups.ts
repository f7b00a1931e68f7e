// Groups of channels that can be pruned by the same measure: those that the same layers make. A chain of residual blocks
// is one group, since Add couples all its layers channel by channel.

import { displayNameOf } from "../onnx/nodes.ts";
import type { Layer } from "./propagation-rule.ts";
import type { ChannelTrace } from "./trace-channels.ts";

export interface ChannelGroup {
  /** By its first layer. */
  readonly name: string;
  readonly layers: readonly Layer[];
  /** Each stands for channels that can only be removed together: one of each layer, or several where a convolution has groups. */
  readonly units: readonly number[];
  /** How many channels of a tensor go with a unit. */
  readonly channelsPerUnit: readonly number[];
}

/** A layer of which no channel can be removed. */
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

export function findChannelGroups({
  coupling,
  layers,
  nonEmptyAxes: spans,
}: ChannelTrace): ChannelGroups {
  /** Of what can be removed: how many channels of which spans go with it. */
  const places = new Map<number, Map<number, number>>();
  const rootsOf = layers.map(({ channels }) => [
    ...new Set(channels.map((index) => coupling.findRoot(index))),
  ]);
  spans.forEach((span, position) => {
    for (const index of span) {
      const root = coupling.findRoot(index);
      if (coupling.freezeReasonOf(root) !== undefined) continue;
      const counts = places.get(root) ?? new Map<number, number>();
      places.set(root, counts.set(position, (counts.get(position) ?? 0) + 1));
    }
  });
  const makers = new Map<number, Layer[]>();
  rootsOf.forEach((roots, at) => {
    for (const root of roots)
      if (places.has(root))
        makers.set(root, [...(makers.get(root) ?? []), ...layers.slice(at, at + 1)]);
  });

  // Channels of the same spans: what is left of a group is then a known part of each span.
  const signatureOf = (root: number) =>
    [...(places.get(root) ?? [])].map(([span, count]) => `${span}*${count}`).join(" ");
  const names = new Map<string, number>();
  const groups = [...Map.groupBy(makers.keys(), signatureOf).values()].map(
    (units): ChannelGroup => {
      const [first = 0] = units;
      const own = makers.get(first) ?? [];
      const [name = ""] = own.map(({ node }) => displayNameOf(node));
      const number = (names.get(name) ?? 0) + 1;
      names.set(name, number);
      return {
        name: number === 1 ? name : `${name} (${number})`,
        layers: own,
        units,
        channelsPerUnit: [...new Set(places.get(first)?.values())],
      };
    },
  );
  const leftAlone = layers.flatMap(({ node, channels }, at): UnprunableLayer[] => {
    const free = rootsOf[at]?.some((root) => makers.has(root)) === true;
    return free
      ? []
      : [
          {
            layer: displayNameOf(node),
            op: node.opType,
            channels: channels.length,
            reason: coupling.freezeReasonOf(channels[0] ?? -1) ?? "",
          },
        ];
  });
  return { groups, unprunable: leftAlone };
}
