// Model report, the response of `GET /v1/models/{model}/report`. `edgetier model calibrate` writes it next to the model.
// It shows how well confidences are calibrated, and the effect of other thresholds, on held-out samples.

import * as z from "zod";

const shareSchema = z.number().min(0).max(1);

export const modelReportSchema = z
  .strictObject({
    schemaVersion: z.literal(1),
    model: z.string(),
    tested: z.int().min(1).meta({ description: "Number of held-out samples." }),
    risk: z
      .strictObject({
        what: z.enum(["disagreement", "accuracy"]),
        epsilon: shareSchema,
        delta: shareSchema,
      })
      .optional()
      .meta({
        description:
          "Guarantee of the chosen exits: with confidence 1 - delta, the risk is at most epsilon. Absent for a single tier.",
      }),
    tiers: z
      .array(
        z.strictObject({
          id: z.string(),
          place: z.enum(["edge", "region"]),
          digest: z
            .string()
            .meta({ description: "SHA-256 of the measured graph and calibration." }),
          accuracy: shareSchema.meta({
            description: "Accuracy of the tier if it serves all samples alone.",
          }),
          expectedCalibrationError: shareSchema,
          bins: z
            .array(
              z.strictObject({
                samples: z.int().min(1),
                meanConfidence: shareSchema,
                accuracy: shareSchema,
              }),
            )
            .meta({
              description:
                "Fifteen confidence bins of equal width, over the samples in scope. Empty bins are omitted.",
            }),
        }),
      )
      .min(1),
    points: z
      .array(
        z.strictObject({
          thresholds: z.array(shareSchema).meta({
            description:
              "Minimum confidence to accept each tier's output, for all tiers but the last.",
          }),
          shares: z
            .array(shareSchema)
            .meta({ description: "Share of the inputs that each tier serves." }),
          risk: z.number(),
          accuracy: shareSchema,
          holds: z.boolean().meta({
            description:
              "Whether these samples alone show that the risk is at most epsilon, with confidence 1 - delta.",
          }),
        }),
      )
      .meta({
        description: "Operating points, safest thresholds first, including the chosen ones.",
      }),
  })
  .meta({ id: "ModelReport" });
export type ModelReport = z.output<typeof modelReportSchema>;
