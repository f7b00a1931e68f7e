// Early exit: the rule that accepts a tier's answer instead of calling the next tier.

import type { TierPrediction } from "./calibration.ts";

export interface ExitRule {
  /** Minimum calibrated confidence of an accepted answer; 1 accepts none. */
  readonly confidence: number;
  /** Lower threshold while the next tier is saturated; the manifest states its risk too. */
  readonly whenSaturated?: { readonly confidence: number } | undefined;
}

/**
 * An out-of-scope verdict always escalates. Small tiers detect unknown inputs poorly, and a wrong verdict harms users most.
 * @param rule null accepts every answer, as the last tier requires
 */
export function shouldExit(answer: TierPrediction, rule: ExitRule | null): boolean {
  return rule === null || isConfident(answer, rule.confidence);
}

/** The exit decision while the next tier is saturated; without a lower threshold, the normal one applies. */
export function shouldExitWhenSaturated(answer: TierPrediction, rule: ExitRule): boolean {
  return isConfident(answer, rule.whenSaturated?.confidence ?? rule.confidence);
}

const isConfident = (answer: TierPrediction, confidence: number): boolean =>
  !answer.outOfScope && confidence < 1 && answer.confidence >= confidence;
