// Manifest schemas of a tier's calibration, its exit rule, and the risk guarantee of the chosen exits.

import * as z from "zod";

/**
 * Calibration of a confidence from logits, in three steps:
 *
 * 1. P(label) = softmax((weights * logits + biases) / temperature). Without vectors, weights are 1 and biases are 0.
 *    Temperature and vectors: Guo et al. 2017, "On Calibration of Modern Neural Networks".
 * 2. P(label) is multiplied by 1 - P(out of scope). For scores that are large in scope,
 *    P(out of scope) = sigmoid(scale * (threshold - score)). A score from a graph output is large out of scope, and
 *    P(out of scope) = sigmoid(scale * (score - threshold)).
 * 3. The isotonic map converts the value of the likeliest label.
 */
export const calibrationSchema = z.strictObject({
  temperature: z.number().positive(),
  /** One weight and one bias per label. */
  vector: z
    .strictObject({ weights: z.array(z.number()).min(1), biases: z.array(z.number()).min(1) })
    .optional(),
  /** Points of a piecewise linear function, constant before the first and after the last point. */
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
      "both lists must ascend and have the same length",
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
      /** Temperature of the score, applied to the graph's raw logits; defaults to the calibration's temperature. */
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

/** Minimum confidence at which a tier's output is accepted. */
export const exitRuleSchema = z
  .strictObject({
    confidence: confidenceSchema,
    /** Minimum confidence while the next tier is saturated, for its own risk of the same kind. */
    whenSaturated: z
      .strictObject({ confidence: confidenceSchema, epsilon: z.number().gt(0).lt(1) })
      .optional(),
  })
  .refine(
    ({ confidence, whenSaturated }) =>
      whenSaturated === undefined || whenSaturated.confidence <= confidence,
    "whenSaturated.confidence must not be above confidence",
  );

export const RISK_KINDS = ["disagreement", "accuracy"] as const;

/** Guarantee of the chosen exits (toolchain/calibrate): with confidence 1 - delta, the risk is at most epsilon. */
export const riskGuaranteeSchema = z.strictObject({
  /**
   * Kind of risk. `disagreement` is the share of inputs for which cascade and last tier differ; `accuracy` is the
   * accuracy loss against the last tier.
   */
  what: z.enum(RISK_KINDS),
  epsilon: z.number().gt(0).lt(1),
  delta: z.number().gt(0).lt(1),
  method: z.string().min(1),
  /** Number of test samples, disjoint from the samples of the calibration fit. */
  samples: z.int().min(1),
  /** Risk on the test samples. */
  empiricalRisk: z.number(),
});
export type RiskGuarantee = z.output<typeof riskGuaranteeSchema>;
