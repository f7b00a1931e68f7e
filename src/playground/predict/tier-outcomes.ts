// What became of each tier in one prediction, read from the response and the model's tiers.

import type { ModelDetail } from "../../protocol/model-detail.ts";
import type { PredictResponse } from "../../protocol/predict.ts";

export interface TierOutcome {
  readonly id: string;
  readonly place: string;
  readonly status: "answered" | "escalated" | "failed" | "not_called";
  readonly description: string;
  /** From which on its answer is taken; null: always. */
  readonly threshold: number | null;
  /** Of its own answer, where that is known. */
  readonly confidence?: number;
  readonly label?: string;
}

export function computeTierOutcomes(
  { tiers }: Pick<ModelDetail, "tiers">,
  { outputs: [output], usage }: Pick<PredictResponse, "outputs" | "usage">,
  isCached: boolean,
): TierOutcome[] {
  const by = tiers.findIndex(({ id }) => id === output?.tier);
  return tiers.map(({ id, place, exitConfidence: threshold }, position): TierOutcome => {
    const step = { id, place, threshold };
    const use = usage.tiers.find(({ tier }) => tier === id);
    if (use?.error !== undefined)
      return {
        ...step,
        status: "failed",
        description: use.inputs === 0 ? `left out (${use.error})` : `failed (${use.error})`,
      };
    if (position === by && output !== undefined) {
      return {
        ...step,
        status: "answered",
        description: isCached ? "gave the answer that was kept" : describeAnswer(output, threshold),
        confidence: output.confidence,
        label: output.label,
      };
    }
    return position < by
      ? {
          ...step,
          status: "escalated",
          description: "was not sure enough: the next tier was asked",
        }
      : { ...step, status: "not_called", description: "was not needed" };
  });
}

function describeAnswer(
  { degraded, confidence }: PredictResponse["outputs"][number],
  threshold: number | null,
): string {
  if (degraded) return "gave the best answer that could be had";
  if (threshold === null) return "answered: it is the last tier";
  return confidence >= threshold
    ? "was sure enough: its answer was taken"
    : "answered as the last tier that was allowed";
}
