// The exit rule: when a tier's answer is accepted instead of asking the next tier.

import type { Answer } from "./calibration.ts";

export interface ExitRule {
  /** Answers of at least this calibrated confidence are accepted; at 1, none is. */
  readonly confidence: number;
}

/**
 * @param rule null accepts everything (the last tier)
 * An out-of-scope verdict always escalates: small tiers are weak at telling the unknown, and it is the answer that a
 * user minds most when it is wrong.
 */
export function exits(answer: Answer, rule: ExitRule | null): boolean {
  return rule === null || (!answer.outOfScope && rule.confidence < 1 && answer.confidence >= rule.confidence);
}
