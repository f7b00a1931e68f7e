// Selects one tier's exit by the loss on the samples, without a statistical guarantee
// (control-risk.ts gives one).

import { softmax } from "../../cascade/calibration.ts";
import { argmax } from "../argmax.ts";
import type { LabeledLogits } from "./logit-scaling.ts";

export interface ExitThreshold {
  readonly confidence: number;
  /** Share of the samples that the tier answers at this threshold. */
  readonly coverage: number;
  /** Accuracy loss of both tiers together against the next tier alone, in points. */
  readonly lossPoints: number;
}

/**
 * Selects the lowest confidence within the bound, so that the tier answers as many samples as
 * possible.
 * @param nextLogits logits of the next tier, one row for each of `rows`
 */
export function selectExitThreshold(
  rows: readonly LabeledLogits[],
  temperature: number,
  nextLogits: readonly Float32Array[],
  maxLossPoints: number,
): ExitThreshold {
  const predictions = [...rows.entries()]
    .filter(([, { label }]) => label >= 0)
    .map(([position, { logits, label }]) => {
      const best = argmax(logits);
      return {
        confidence: softmax(logits, temperature)[best] ?? 0,
        gain:
          Number(best === label) -
          Number(argmax(nextLogits[position] ?? new Float32Array()) === label),
      };
    })
    .toSorted((a, b) => b.confidence - a.confidence);
  let chosen: ExitThreshold = { confidence: 1, coverage: 0, lossPoints: 0 };
  let gain = 0;
  predictions.forEach((row, position) => {
    gain += row.gain;
    const lossPoints = (-100 * gain) / predictions.length;
    const isLastOfTies = predictions[position + 1]?.confidence !== row.confidence;
    if (isLastOfTies && lossPoints <= maxLossPoints)
      chosen = {
        confidence: Math.floor(row.confidence * 1e6) / 1e6,
        coverage: (position + 1) / predictions.length,
        lossPoints,
      };
  });
  return chosen;
}
