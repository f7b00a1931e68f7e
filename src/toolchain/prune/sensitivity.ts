// Measures the pruning sensitivity of a graph: prunes each part alone at several ratios and scores
// each result.

import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import type { TensorShapes } from "./measure-shapes.ts";
import { type ChannelPrunerOptions, ChannelPruner } from "./prune-channels.ts";
import { listWeightedLayers, pruneByMagnitude, computeNonZeroBytes } from "./prune-magnitude.ts";
import type { PruningRatios } from "./ratios.ts";

/** Scores a graph, higher is better. Example: accuracy on samples in the graph's target runtime. */
export type ModelScorer = (model: Uint8Array) => Promise<number>;

/** A graph whose parts can be pruned repeatedly, each time from the original. */
export interface PruningTarget {
  /** Names of channel groups or layers. */
  readonly parts: readonly string[];
  prune(ratios: PruningRatios): Uint8Array;
  /** Computes the cost of the pruned graph, in the unit of the budget. */
  computeCost(ratios: PruningRatios): number;
}

/** @throws nothing_to_prune, invalid_pruning */
export function createChannelTarget(
  bytes: Uint8Array,
  shapes: TensorShapes,
  unit: "macs" | "bytes",
  options: ChannelPrunerOptions = {},
): PruningTarget {
  const original = new ChannelPruner(parseModel(bytes), shapes, options);
  return {
    parts: original.groups,
    prune: (ratios) =>
      editModel(bytes, (model) => {
        const pruner = new ChannelPruner(model, shapes, options);
        pruner.removeUnits(pruner.selectUnits(ratios));
      }),
    computeCost: (ratios) => original.computeCostWithout(original.selectUnits(ratios))[unit],
  };
}

/**
 * The cost is the size of the nonzero weights in bytes, which approximates a compressed file.
 * @throws nothing_to_prune
 */
export function createMagnitudeTarget(bytes: Uint8Array): PruningTarget {
  const original = parseModel(bytes);
  return {
    parts: listWeightedLayers(original),
    prune: (ratio) => editModel(bytes, (model) => void pruneByMagnitude(model, { ratio })),
    computeCost: (ratio) => computeNonZeroBytes(original, ratio),
  };
}

function editModel(bytes: Uint8Array, change: (model: Model) => void): Uint8Array {
  const model = parseModel(bytes);
  change(model);
  return serializeModel(model);
}

export interface PruningSensitivity {
  /** Score of the original. */
  readonly score: number;
  readonly parts: readonly PartSensitivity[];
}

export interface PartSensitivity {
  readonly part: string;
  readonly points: readonly SensitivityPoint[];
}

export interface SensitivityPoint {
  readonly ratio: number;
  /** Cost of the whole graph with this part pruned. */
  readonly cost: number;
  readonly score: number;
  /** Score of the original minus this score; negative for an improvement. */
  readonly loss: number;
}

export interface MeasureSensitivityOptions {
  readonly ratios?: readonly number[];
  readonly onProgress?: (done: number, total: number) => void;
}

export const DEFAULT_RATIOS = [0.1, 0.3, 0.5, 0.7] as const;

/**
 * Scores ratios with the same cost only once. Rounding to a multiple makes such ratios frequent.
 */
export async function measureSensitivity(
  target: PruningTarget,
  scoreModel: ModelScorer,
  { ratios = DEFAULT_RATIOS, onProgress = () => {} }: MeasureSensitivityOptions = {},
): Promise<PruningSensitivity> {
  const original = {
    ratio: 0,
    cost: target.computeCost(0),
    score: await scoreModel(target.prune(0)),
    loss: 0,
  };
  const parts: PartSensitivity[] = [];
  for (const part of target.parts) {
    const points: SensitivityPoint[] = [];
    for (const ratio of ratios.toSorted((a, b) => a - b)) {
      const partRatio = new Map([[part, ratio]]);
      const cost = target.computeCost(partRatio);
      const equalPoint = [original, ...points].find((point) => point.cost === cost);
      const score = equalPoint?.score ?? (await scoreModel(target.prune(partRatio)));
      points.push({ ratio, cost, score, loss: original.score - score });
      onProgress(parts.length * ratios.length + points.length, target.parts.length * ratios.length);
    }
    parts.push({ part, points });
  }
  return { score: original.score, parts };
}
