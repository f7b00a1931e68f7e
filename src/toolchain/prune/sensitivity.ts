// How much each part of a graph minds being pruned: it alone is pruned by some ratios, and each result is judged.

import { type Model, readModel, writeModel } from "../onnx/model-file.ts";
import { type ChannelOptions, Channels } from "./channels.ts";
import { prunableLayers, pruneMagnitudes, sizeOfNonZeros } from "./magnitude.ts";
import type { Ratios } from "./ratios.ts";
import type { Shapes } from "./shapes.ts";

/** How good a graph is: the more the better, as accuracy on samples in the runtime that the graph is for. */
export type Judge = (model: Uint8Array) => Promise<number>;

/** A graph that can be pruned in parts, again and again from the original. */
export interface Subject {
  /** Groups of channels, or layers. */
  readonly parts: readonly string[];
  prune(ratios: Ratios): Uint8Array;
  /** What the pruned graph costs, in the unit that a budget is given in. */
  cost(ratios: Ratios): number;
}

/** @throws nothing_to_prune, invalid_pruning */
export function channelSubject(
  bytes: Uint8Array,
  shapes: Shapes,
  unit: "macs" | "bytes",
  options: ChannelOptions = {},
): Subject {
  const original = new Channels(readModel(bytes), shapes, options);
  return {
    parts: original.groups,
    prune: (ratios) =>
      changed(bytes, (model) => {
        const channels = new Channels(model, shapes, options);
        channels.remove(channels.choose(ratios));
      }),
    cost: (ratios) => original.costWithout(original.choose(ratios))[unit],
  };
}

/** It costs the bytes of the weights that are not 0: about what a compressed file grows and shrinks by. @throws nothing_to_prune */
export function magnitudeSubject(bytes: Uint8Array): Subject {
  const original = readModel(bytes);
  return {
    parts: prunableLayers(original),
    prune: (ratio) => changed(bytes, (model) => void pruneMagnitudes(model, { ratio })),
    cost: (ratio) => sizeOfNonZeros(original, ratio),
  };
}

function changed(bytes: Uint8Array, change: (model: Model) => void): Uint8Array {
  const model = readModel(bytes);
  change(model);
  return writeModel(model);
}

export interface Sensitivity {
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

export interface SensitivityOptions {
  readonly ratios?: readonly number[];
  readonly onProgress?: (done: number, of: number) => void;
}

export const RATIOS = [0.1, 0.3, 0.5, 0.7] as const;

/** Ratios that come to the same, as where a multiple has to be left, are judged once. */
export async function measureSensitivity(
  subject: Subject,
  judge: Judge,
  { ratios = RATIOS, onProgress = () => {} }: SensitivityOptions = {},
): Promise<Sensitivity> {
  const nothing = {
    ratio: 0,
    cost: subject.cost(0),
    score: await judge(subject.prune(0)),
    loss: 0,
  };
  const parts: PartSensitivity[] = [];
  for (const part of subject.parts) {
    const points: SensitivityPoint[] = [];
    for (const ratio of ratios.toSorted((a, b) => a - b)) {
      const only = new Map([[part, ratio]]);
      const cost = subject.cost(only);
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
