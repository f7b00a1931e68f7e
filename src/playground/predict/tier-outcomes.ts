// Tier outcomes: derives the outcome of each tier from a prediction and the model's tiers.

import type { ModelDetail } from "../../protocol/model-detail.ts";
import type { PredictResponse } from "../../protocol/predict.ts";

export interface TierOutcome {
  readonly id: string;
  readonly place: string;
  readonly status: "answered" | "escalated" | "failed" | "not_called";
  readonly description: string;
  /** Confidence from which the tier exits; null if it always does. */
  readonly threshold: number | null;
  /** Confidence of the tier's own output, if known. */
  readonly confidence?: number;
  readonly label?: string;
}

export function computeTierOutcomes(
  { tiers }: Pick<ModelDetail, "tiers">,
  { outputs: [output], usage }: Pick<PredictResponse, "outputs" | "usage">,
  isCached: boolean,
): TierOutcome[] {
  const answeredIndex = tiers.findIndex(({ id }) => id === output?.tier);
  return tiers.map(({ id, place, exitConfidence: threshold }, index): TierOutcome => {
    const tierFields = { id, place, threshold };
    const use = usage.tiers.find(({ tier }) => tier === id);
    if (use?.error !== undefined)
      return {
        ...tierFields,
        status: "failed",
        description: use.inputs === 0 ? `skipped (${use.error})` : `failed (${use.error})`,
      };
    if (index === answeredIndex && output !== undefined) {
      return {
        ...tierFields,
        status: "answered",
        description: isCached ? "returned the cached output" : describeAnswer(output, threshold),
        confidence: output.confidence,
        label: output.label,
      };
    }
    return index < answeredIndex
      ? {
          ...tierFields,
          status: "escalated",
          description: "was not confident enough; escalated to the next tier",
        }
      : { ...tierFields, status: "not_called", description: "was not needed" };
  });
}

function describeAnswer(
  { degraded, confidence }: PredictResponse["outputs"][number],
  threshold: number | null,
): string {
  if (degraded) return "returned the best available output";
  if (threshold === null) return "answered as the last tier";
  return confidence >= threshold
    ? "exited with sufficient confidence"
    : "answered as the last allowed tier";
}
