// Pruning by channel: whole channels leave the graph, which then computes less in any runtime.

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { displayNameOf } from "../onnx/nodes.ts";
import { type GraphCost, computeGraphCost, createDimsLookup } from "./graph-cost.ts";
import { type ChannelGroup, findChannelGroups, type UnprunableLayer } from "./channel-groups.ts";
import { type ImportanceCriterion, scoreImportance } from "./importance.ts";
import { countToPrune, resolveRatios, type PruningRatios } from "./ratios.ts";
import { createRemainingSizeLookup, removeUnits } from "./remove-channels.ts";
import type { TensorShapes } from "./measure-shapes.ts";
import { type ChannelTrace, traceChannels } from "./trace-channels.ts";

export interface ChannelPrunerOptions {
  /** `l1` by default. */
  readonly importance?: ImportanceCriterion;
  /** What is left of a group is a multiple of it, for SIMD: 8 by default. A group that is smaller loses nothing. */
  readonly multiple?: number;
}

export interface PrunedGroup {
  readonly name: string;
  readonly layers: readonly string[];
  /** Of its first layer; of layers whose channels are in several groups, those of this one. */
  readonly channels: number;
  readonly removed: number;
}

export interface ChannelPruningReport {
  readonly groups: readonly PrunedGroup[];
  readonly unprunable: readonly UnprunableLayer[];
  /** After the removal. */
  readonly shapes: TensorShapes;
}

/** A graph whose channels are ranked, to choose among. */
export class ChannelPruner {
  readonly unprunable: readonly UnprunableLayer[];
  readonly #model: Model;
  readonly #shapes: TensorShapes;
  readonly #trace: ChannelTrace;
  readonly #ranked: readonly RankedGroup[];
  readonly #multiple: number;

  /**
   * Sorts the model's nodes, and changes nothing else.
   * @param shapes as `measureShapes` has them
   * @throws nothing_to_prune, invalid_model_file
   */
  constructor(
    model: Model,
    shapes: TensorShapes,
    { importance = "l1", multiple = 8 }: ChannelPrunerOptions = {},
  ) {
    if (!Number.isSafeInteger(multiple) || multiple < 1)
      throw toolchainErrors.invalidPruning(
        `The multiple ${multiple} is not a whole number from 1 on`,
      );
    this.#model = model;
    this.#shapes = shapes;
    this.#multiple = multiple;
    this.#trace = traceChannels(model, shapes);
    const { groups, unprunable: leftAlone } = findChannelGroups(this.#trace);
    const measured = groups.map((group) => ({
      group,
      scores: scoreImportance(this.#trace, group, importance),
    }));
    this.#ranked = measured.flatMap(({ group, scores }) =>
      scores === undefined ? [] : [rankUnits(group, scores)],
    );
    const unmeasured = measured.flatMap(({ group, scores }) =>
      scores === undefined ? group.layers : [],
    );
    this.unprunable = [
      ...leftAlone,
      ...unmeasured.map(({ node, channels }): UnprunableLayer => ({
        layer: displayNameOf(node),
        op: node.opType,
        channels: channels.length,
        reason: "no BatchNormalization follows it",
      })),
    ];
    if (this.#ranked.length === 0)
      throw toolchainErrors.nothingToPrune(
        this.unprunable.map(({ layer, reason }) => `${layer}: ${reason}`),
      );
  }

  /** In the graph's order. */
  get groups(): readonly string[] {
    return this.#ranked.map(({ group }) => group.name);
  }

  /** What would be removed, the least important first. @param ratios of units, by group's name or for all; less goes where the rest has to be a multiple */
  selectUnits(ratios: PruningRatios): ReadonlySet<number> {
    const byName = resolveRatios(this.groups, ratios);
    return new Set(
      this.#ranked.flatMap((one) =>
        this.#least(one, countToPrune(one.order.length, byName.get(one.group.name) ?? 0)),
      ),
    );
  }

  /** By one threshold for all groups, so that those lose most that matter least. */
  selectUnitsGlobally(ratio: number): ReadonlySet<number> {
    resolveRatios(this.groups, ratio);
    const all = this.#ranked
      .flatMap((one) => Array.from(one.scores, (score) => ({ one, score })))
      .sort((a, b) => a.score - b.score);
    const counts = Map.groupBy(all.slice(0, countToPrune(all.length, ratio)), ({ one }) => one);
    return new Set(this.#ranked.flatMap((one) => this.#least(one, counts.get(one)?.length ?? 0)));
  }

  /** Units all of whose weights are 0, whatever multiple is left. The last of a group stays. */
  selectZeroUnits(): ReadonlySet<number> {
    return new Set(
      this.#ranked.flatMap(({ order, scores }) =>
        order.slice(0, Math.min(order.length - 1, scores.filter((score) => score === 0).length)),
      ),
    );
  }

  /** What the graph costs without them. */
  computeCostWithout(units: ReadonlySet<number>): GraphCost {
    const { table, axes } = this.#trace;
    const [dimsOf, left] = [
      createDimsLookup(this.#model, this.#shapes),
      createRemainingSizeLookup(this.#trace, units),
    ];
    return computeGraphCost(table, (value) => {
      const own = value && axes.get(value);
      return dimsOf(value)?.map((size, at) => (own?.[at] === undefined ? size : left(own[at])));
    });
  }

  /** Changes the model; nothing else can be asked of this object afterwards. */
  removeUnits(units: ReadonlySet<number>): ChannelPruningReport {
    const shapes = removeUnits(this.#model, this.#trace, this.#shapes, units);
    const groups = this.#ranked.map(
      ({ group: { name, layers, units: own, channelsPerUnit } }): PrunedGroup => {
        const [each = 1] = channelsPerUnit;
        return {
          name,
          layers: layers.map(({ node }) => displayNameOf(node)),
          channels: own.length * each,
          removed: own.filter((unit) => units.has(unit)).length * each,
        };
      },
    );
    return { groups, unprunable: this.unprunable, shapes };
  }

  /** At most `count`: what is left is rounded up to the multiple. */
  #least({ group, order }: RankedGroup, count: number): readonly number[] {
    const step = group.channelsPerUnit
      .map((each) => this.#multiple / greatestCommonDivisor(this.#multiple, each))
      .reduce((a, b) => (a * b) / greatestCommonDivisor(a, b), 1);
    const left = Math.ceil(Math.max(1, order.length - count) / step) * step;
    return order.slice(0, Math.max(0, order.length - left));
  }
}

interface RankedGroup {
  readonly group: ChannelGroup;
  /** In the order of the group's units. */
  readonly scores: Float64Array;
  /** Units, the least important first; of equal ones the first. */
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

/** The ratio is of each group's channels; with `model`, of all groups' together, by one threshold. */
export type PruneChannelsOptions = ChannelPrunerOptions &
  (
    | { readonly scope?: "group"; readonly ratio: PruningRatios }
    | { readonly scope: "model"; readonly ratio: number }
  );

/**
 * Changes the model.
 * @throws nothing_to_prune, invalid_pruning, invalid_model_file
 */
export function pruneChannels(
  model: Model,
  shapes: TensorShapes,
  options: PruneChannelsOptions,
): ChannelPruningReport {
  const channels = new ChannelPruner(model, shapes, options);
  return channels.removeUnits(
    options.scope === "model"
      ? channels.selectUnitsGlobally(options.ratio)
      : channels.selectUnits(options.ratio),
  );
}
