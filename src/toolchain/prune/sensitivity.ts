// How much each part of a graph minds being pruned: it alone is pruned by some ratios, and each result is judged.

import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { type ChannelPrunerOptions, ChannelPruner } from "./prune-channels.ts";
import { listWeightedLayers, pruneByMagnitude, computeNonZeroBytes } from "./prune-magnitude.ts";
import type { PruningRatios } from "./ratios.ts";
import type { TensorShapes } from "./measure-shapes.ts";

/** How good a graph is: the more the better, as accuracy on samples in the runtime that the graph is for. */
export type ModelScorer = (model: Uint8Array) => Promise<number>;

/** A graph that can be pruned in parts, again and again from the original. */
export interface PruningTarget {
  /** Groups of channels, or layers. */
  readonly parts: readonly string[];
  prune(ratios: PruningRatios): Uint8Array;
  /** What the pruned graph costs, in the unit that a budget is given in. */
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
        const channels = new ChannelPruner(model, shapes, options);
        channels.removeUnits(channels.selectUnits(ratios));
      }),
    computeCost: (ratios) => original.computeCostWithout(original.selectUnits(ratios))[unit],
  };
}

/** It costs the bytes of the weights that are not 0: about what a compressed file grows and shrinks by. @throws nothing_to_prune */
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
  /** The judge's score of the original. */
  readonly score: number;
  readonly parts: readonly PartSensitivity[];
}

export interface PartSensitivity {
  readonly part: string;
  readonly points: readonly SensitivityPoint[];
}

export interface SensitivityPoint {
  readonly ratio: number;
  /** What the whole graph costs with this part pruned. */
  readonly cost: number;
  readonly score: number;
  /** By how much the score is less than the original's; negative if it is more. */
  readonly loss: number;
}

export interface MeasureSensitivityOptions {
  readonly ratios?: readonly number[];
  readonly onProgress?: (done: number, of: number) => void;
}

export const DEFAULT_RATIOS = [0.1, 0.3, 0.5, 0.7] as const;

/** Ratios that come to the same, as where a multiple has to be left, are judged once. */
export async function measureSensitivity(
  subject: PruningTarget,
  judge: ModelScorer,
  { ratios = DEFAULT_RATIOS, onProgress = () => {} }: MeasureSensitivityOptions = {},
): Promise<PruningSensitivity> {
  const nothing = {
    ratio: 0,
    cost: subject.computeCost(0),
    score: await judge(subject.prune(0)),
    loss: 0,
  };
  const parts: PartSensitivity[] = [];
  for (const part of subject.parts) {
    const points: SensitivityPoint[] = [];
    for (const ratio of ratios.toSorted((a, b) => a - b)) {
      const only = new Map([[part, ratio]]);
      const cost = subject.computeCost(only);
      const same = [nothing, ...points].find((point) => point.cost === cost);
      const score = same?.score ?? (await judge(subject.prune(only)));
      points.push({ ratio, cost, score, loss: nothing.score - score });
      onProgress(
        parts.length * ratios.length + points.length,
        subject.parts.length * ratios.length,
      );
    }
    parts.push({ part, points });
  }
  return { score: nothing.score, parts };
}
