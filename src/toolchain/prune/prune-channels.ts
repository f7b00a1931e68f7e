// Structured pruning: removes whole channels from the graph, which saves computation in any
// runtime.

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { displayNameOf } from "../onnx/nodes.ts";
import { type ChannelGroup, findChannelGroups, type UnprunableLayer } from "./channel-groups.ts";
import { type GraphCost, computeGraphCost, createDimsLookup } from "./graph-cost.ts";
import { type ImportanceCriterion, scoreImportance } from "./importance.ts";
import type { TensorShapes } from "./measure-shapes.ts";
import { countToPrune, resolveRatios, type PruningRatios } from "./ratios.ts";
import { createRemainingSizeLookup, removeUnits } from "./remove-channels.ts";
import { type ChannelTrace, traceChannels } from "./trace-channels.ts";

export interface ChannelPrunerOptions {
  /** Default: `l1`. */
  readonly importance?: ImportanceCriterion;
  /**
   * The remaining channels of a group are a multiple of this, for SIMD. Default: 8. Smaller groups
   * are not pruned.
   */
  readonly multiple?: number;
}

export interface PrunedGroup {
  readonly name: string;
  readonly layers: readonly string[];
  /** Number of channels of the group in its first layer. */
  readonly channels: number;
  readonly removed: number;
}

export interface ChannelPruningReport {
  readonly groups: readonly PrunedGroup[];
  readonly unprunable: readonly UnprunableLayer[];
  /** Shapes after the removal. */
  readonly shapes: TensorShapes;
}

/** Ranks the channels of a graph, selects channels and removes them. */
export class ChannelPruner {
  readonly unprunable: readonly UnprunableLayer[];
  readonly #model: Model;
  readonly #shapes: TensorShapes;
  readonly #trace: ChannelTrace;
  readonly #ranked: readonly RankedGroup[];
  readonly #multiple: number;

  /**
   * Sorts the model's nodes topologically without further changes.
   * @param shapes result of `measureShapes`
   * @throws nothing_to_prune, invalid_model_file
   */
  constructor(
    model: Model,
    shapes: TensorShapes,
    { importance = "l1", multiple = 8 }: ChannelPrunerOptions = {},
  ) {
    if (!Number.isSafeInteger(multiple) || multiple < 1)
      throw toolchainErrors.invalidPruning(
        `The multiple is ${multiple}; expected a whole number of at least 1`,
      );
    this.#model = model;
    this.#shapes = shapes;
    this.#multiple = multiple;
    this.#trace = traceChannels(model, shapes);
    const { groups, unprunable } = findChannelGroups(this.#trace);
    const scoredGroups = groups.map((group) => ({
      group,
      scores: scoreImportance(this.#trace, group, importance),
    }));
    this.#ranked = scoredGroups.flatMap(({ group, scores }) =>
      scores === undefined ? [] : [rankUnits(group, scores)],
    );
    const unscoredLayers = scoredGroups.flatMap(({ group, scores }) =>
      scores === undefined ? group.layers : [],
    );
    this.unprunable = [
      ...unprunable,
      ...unscoredLayers.map(({ node, channels }): UnprunableLayer => ({
        layer: displayNameOf(node),
        op: node.opType,
        channels: channels.length,
        reason: "no BatchNormalization follows the layer",
      })),
    ];
    if (this.#ranked.length === 0)
      throw toolchainErrors.nothingToPrune(
        this.unprunable.map(({ layer, reason }) => `${layer}: ${reason}`),
      );
  }

  /** Names of the groups, in the order of the graph. */
  get groups(): readonly string[] {
    return this.#ranked.map(({ group }) => group.name);
  }

  /**
   * Selects the least important units of each group. Rounding to the multiple may select fewer.
   * @param ratios share of the units, by group name or for all groups
   */
  selectUnits(ratios: PruningRatios): ReadonlySet<number> {
    const byName = resolveRatios(this.groups, ratios);
    return new Set(
      this.#ranked.flatMap((ranked) => {
        const ratio = byName.get(ranked.group.name) ?? 0;
        return this.#takeLeastImportant(ranked, countToPrune(ranked.order.length, ratio));
      }),
    );
  }

  /**
   * Selects units by one threshold for all groups, so that the least important groups lose the
   * most.
   */
  selectUnitsGlobally(ratio: number): ReadonlySet<number> {
    resolveRatios(this.groups, ratio);
    const units = this.#ranked
      .flatMap((ranked) => Array.from(ranked.scores, (score) => ({ ranked, score })))
      .sort((a, b) => a.score - b.score);
    const selected = units.slice(0, countToPrune(units.length, ratio));
    const byGroup = Map.groupBy(selected, ({ ranked }) => ranked);
    return new Set(
      this.#ranked.flatMap((ranked) =>
        this.#takeLeastImportant(ranked, byGroup.get(ranked)?.length ?? 0),
      ),
    );
  }

  /**
   * Selects units whose weights are all 0, regardless of the multiple. At least one unit of a group
   * remains.
   */
  selectZeroUnits(): ReadonlySet<number> {
    return new Set(
      this.#ranked.flatMap(({ order, scores }) =>
        order.slice(0, Math.min(order.length - 1, scores.filter((score) => score === 0).length)),
      ),
    );
  }

  /** Computes the graph's cost without the units. */
  computeCostWithout(units: ReadonlySet<number>): GraphCost {
    const { table, axes } = this.#trace;
    const dimsOf = createDimsLookup(this.#model, this.#shapes);
    const remainingSize = createRemainingSizeLookup(this.#trace, units);
    return computeGraphCost(table, (value) => {
      const valueAxes = value && axes.get(value);
      return dimsOf(value)?.map((size, dimension) => {
        const axis = valueAxes?.[dimension];
        return axis === undefined ? size : remainingSize(axis);
      });
    });
  }

  /** Removes the units from the model. The pruner must not be used afterwards. */
  removeUnits(units: ReadonlySet<number>): ChannelPruningReport {
    const shapes = removeUnits(this.#model, this.#trace, this.#shapes, units);
    const groups = this.#ranked.map(
      ({ group: { name, layers, units: groupUnits, channelsPerUnit } }): PrunedGroup => {
        const [channels = 1] = channelsPerUnit;
        return {
          name,
          layers: layers.map(({ node }) => displayNameOf(node)),
          channels: groupUnits.length * channels,
          removed: groupUnits.filter((unit) => units.has(unit)).length * channels,
        };
      },
    );
    return { groups, unprunable: this.unprunable, shapes };
  }

  /** Takes at most `count` units, because the remaining number is rounded up to the multiple. */
  #takeLeastImportant({ group, order }: RankedGroup, count: number): readonly number[] {
    const step = group.channelsPerUnit
      .map((channels) => this.#multiple / greatestCommonDivisor(this.#multiple, channels))
      .reduce((a, b) => (a * b) / greatestCommonDivisor(a, b), 1);
    const remaining = Math.ceil(Math.max(1, order.length - count) / step) * step;
    return order.slice(0, Math.max(0, order.length - remaining));
  }
}

interface RankedGroup {
  readonly group: ChannelGroup;
  /** Scores in the order of the group's units. */
  readonly scores: Float64Array;
  /** Units by ascending importance; ties keep their order. */
  readonly order: readonly number[];
}

function rankUnits(group: ChannelGroup, scores: Float64Array): RankedGroup {
  const positions = group.units
    .map((_, position) => position)
    .sort((a, b) => (scores[a] ?? 0) - (scores[b] ?? 0) || a - b);
  return { group, scores, order: positions.map((position) => group.units[position] ?? -1) };
}

const greatestCommonDivisor = (a: number, b: number): number =>
  b === 0 ? a : greatestCommonDivisor(b, a % b);

/**
 * The ratio applies to each group; with the scope `model`, one threshold applies to all groups
 * together.
 */
export type PruneChannelsOptions = ChannelPrunerOptions &
  (
    | { readonly scope?: "group"; readonly ratio: PruningRatios }
    | { readonly scope: "model"; readonly ratio: number }
  );

/**
 * Removes channels from the model in place.
 * @throws nothing_to_prune, invalid_pruning, invalid_model_file
 */
export function pruneChannels(
  model: Model,
  shapes: TensorShapes,
  options: PruneChannelsOptions,
): ChannelPruningReport {
  const pruner = new ChannelPruner(model, shapes, options);
  return pruner.removeUnits(
    options.scope === "model"
      ? pruner.selectUnitsGlobally(options.ratio)
      : pruner.selectUnits(options.ratio),
  );
}
