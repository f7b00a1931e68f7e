// What `GET /v1/models/{model}/report` answers, and `edgetier model calibrate` writes beside a model: how well its confidences fit, and
// what other thresholds would do, on samples that none of it was fitted to.

import * as z from "zod";

const shareSchema = z.number().min(0).max(1);

export const modelReportSchema = z
  .strictObject({
    schemaVersion: z.literal(1),
    model: z.string(),
    tested: z.int().min(1).meta({ description: "Samples that all of this was measured on." }),
    risk: z
      .strictObject({
        what: z.enum(["disagreement", "accuracy"]),
        epsilon: shareSchema,
        delta: shareSchema,
      })
      .optional()
      .meta({
        description:
          "What the exits were chosen for: with confidence 1 - delta, the risk is at most epsilon. None for a single tier.",
      }),
    tiers: z
      .array(
        z.strictObject({
          id: z.string(),
          place: z.enum(["edge", "region"]),
          digest: z
            .string()
            .meta({ description: "SHA-256 of the graph and the calibration that were measured." }),
          accuracy: shareSchema.meta({
            description: "Of the tier answering everything by itself.",
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
                "Fifteen equally wide bins of confidence, of samples in scope; those without a sample are left out.",
            }),
        }),
      )
      .min(1),
    points: z
      .array(
        z.strictObject({
          thresholds: z.array(shareSchema).meta({
            description:
              "From which confidence on each tier's answer is taken, without the last tier.",
          }),
          shares: z
            .array(shareSchema)
            .meta({ description: "Of the inputs that each tier answers." }),
          risk: z.number(),
          accuracy: shareSchema,
          holds: z.boolean().meta({
            description:
              "Whether these samples, by themselves, show the risk to be at most epsilon with confidence 1 - delta.",
          }),
        }),
      )
      .meta({
        description: "Thresholds from the safest on; those that were chosen are among them.",
      }),
  })
  .meta({ id: "ModelReport" });
export type ModelReport = z.output<typeof modelReportSchema>;
