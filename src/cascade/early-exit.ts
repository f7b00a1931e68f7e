// The exit rule: when a tier's answer is accepted instead of asking the next tier.

import type { TierPrediction } from "./calibration.ts";

export interface ExitRule {
  /** Answers of at least this calibrated confidence are accepted; at 1, none is. */
  readonly confidence: number;
  /** The same while the next tier has more to do than it can: lower, within a risk that is stated as well. */
  readonly whenSaturated?: { readonly confidence: number } | undefined;
}

/**
 * @param rule null accepts everything (the last tier)
 * An out-of-scope verdict always escalates: small tiers are weak at telling the unknown, and it is the answer that a
 * user minds most when it is wrong.
 */
export function shouldExit(answer: TierPrediction, rule: ExitRule | null): boolean {
  return rule === null || isConfident(answer, rule.confidence);
}

/** The same while the next tier is saturated; a rule that does not say otherwise holds as it is. */
export function shouldExitWhenSaturated(answer: TierPrediction, rule: ExitRule): boolean {
  return isConfident(answer, rule.whenSaturated?.confidence ?? rule.confidence);
}

const isConfident = (answer: TierPrediction, confidence: number): boolean =>
  !answer.outOfScope && confidence < 1 && answer.confidence >= confidence;
