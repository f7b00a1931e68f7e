// How a tier's confidence is read off its logits, and what risk the exits were chosen for.

import * as z from "zod";

/**
 * How a confidence is read off the logits: P(label) = softmax((weights * logits + biases) / temperature), where the vectors
 * are 1 and 0 if there are none; times 1 - P(out of scope); and what comes out for the likeliest label goes through the
 * isotonic map. Temperature and vectors: Guo et al. 2017, "On Calibration of Modern Neural Networks".
 * P(out of scope) = sigmoid(scale * (threshold - score)) for the scores that are large in scope, and
 * sigmoid(scale * (score - threshold)) for a score that the graph gives as an output, large out of scope.
 */
export const calibrationSchema = z.strictObject({
  temperature: z.number().positive(),
  /** One of each per label. */
  vector: z
    .strictObject({ weights: z.array(z.number()).min(1), biases: z.array(z.number()).min(1) })
    .optional(),
  /** Points of a line, level before the first and after the last. */
  isotonic: z
    .strictObject({
      confidence: z.array(z.number().min(0).max(1)).min(1).max(1_000),
      calibrated: z.array(z.number().min(0).max(1)).min(1).max(1_000),
    })
    .refine(
      ({ confidence, calibrated }) =>
        confidence.length === calibrated.length &&
        isAscending(confidence, true) &&
        isAscending(calibrated, false),
      "both sides must ascend, and have as many points",
    )
    .optional(),
  outOfScope: z
    .strictObject({
      label: z.string().min(1),
      score: z.discriminatedUnion("kind", [
        z.strictObject({ kind: z.literal("maxProbability") }),
        z.strictObject({ kind: z.literal("maxLogit") }),
        z.strictObject({ kind: z.literal("energy") }),
        z.strictObject({ kind: z.literal("output"), output: z.string().min(1) }),
      ]),
      /** That the score is computed at, of the logits as the graph gives them; the one above if it is left out. */
      temperature: z.number().positive().optional(),
      threshold: z.number(),
      scale: z.number().positive(),
    })
    .optional(),
});
export type Calibration = z.output<typeof calibrationSchema>;

function isAscending(values: readonly number[], strictly: boolean): boolean {
  return values.every(
    (value, index) =>
      index === 0 ||
      (strictly ? value > (values[index - 1] ?? 0) : value >= (values[index - 1] ?? 0)),
  );
}

const confidenceSchema = z.number().min(0).max(1);

/** From which confidence on a tier's answer is accepted. */
export const exitRuleSchema = z
  .strictObject({
    confidence: confidenceSchema,
    /** The same while the next tier is saturated, for a risk of its own, of the kind that the exits are chosen for. */
    whenSaturated: z
      .strictObject({ confidence: confidenceSchema, epsilon: z.number().gt(0).lt(1) })
      .optional(),
  })
  .refine(
    ({ confidence: usual, whenSaturated }) =>
      whenSaturated === undefined || whenSaturated.confidence <= usual,
    "whenSaturated.confidence must not be above confidence",
  );

export const RISK_KINDS = ["disagreement", "accuracy"] as const;

/** What the exits were chosen for (build/calibrate): with confidence 1 - delta, the risk is at most epsilon. */
export const riskGuaranteeSchema = z.strictObject({
  /** `disagreement`: the share of inputs that the cascade answers otherwise than its last tier; `accuracy`: what it loses against that one. */
  what: z.enum(RISK_KINDS),
  epsilon: z.number().gt(0).lt(1),
  delta: z.number().gt(0).lt(1),
  method: z.string().min(1),
  /** That the exits were tested on: none of those that calibrations were fitted to. */
  samples: z.int().min(1),
  /** On those samples. */
  empiricalRisk: z.number(),
});
export type RiskGuarantee = z.output<typeof riskGuaranteeSchema>;
