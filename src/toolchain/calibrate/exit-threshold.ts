// One tier's exit against the next, by what the samples lose and no more: no confidence comes with it (control-risk.ts has one).

import { softmax } from "../../cascade/calibration.ts";
import { argmax } from "../argmax.ts";
import type { LabeledLogits } from "./logit-scaling.ts";

export interface ExitThreshold {
  readonly confidence: number;
  /** Of the samples that the tier answers at it. */
  readonly coverage: number;
  /** Points of accuracy that the two tiers together lose against the next alone. */
  readonly lossPoints: number;
}

/**
 * The lowest confidence at which so many points at most are lost: the tier answers as much as the bound allows.
 * @param next the next tier's logits, one row for each of `rows`
 */
export function selectExitThreshold(
  rows: readonly LabeledLogits[],
  temperature: number,
  next: readonly Float32Array[],
  maxLossPoints: number,
): ExitThreshold {
  const judged = [...rows.entries()]
    .filter(([, { label }]) => label >= 0)
    .map(([position, { logits, label }]) => {
      const best = argmax(logits);
      return {
        confidence: softmax(logits, temperature)[best] ?? 0,
        gain:
          Number(best === label) - Number(argmax(next[position] ?? new Float32Array()) === label),
      };
    })
    .toSorted((a, b) => b.confidence - a.confidence);
  let chosen: ExitThreshold = { confidence: 1, coverage: 0, lossPoints: 0 };
  let gain = 0;
  judged.forEach((row, position) => {
    gain += row.gain;
    const lossPoints = (-100 * gain) / judged.length;
    const isLastOfEquals = judged[position + 1]?.confidence !== row.confidence;
    if (isLastOfEquals && lossPoints <= maxLossPoints)
      chosen = {
        confidence: Math.floor(row.confidence * 1e6) / 1e6,
        coverage: (position + 1) / judged.length,
        lossPoints,
      };
  });
  return chosen;
}
