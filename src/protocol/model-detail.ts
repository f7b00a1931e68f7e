// What `GET /v1/models` and `GET /v1/models/{model}` answer.

import * as z from "zod";

export const modelSummarySchema = z
  .object({
    model: z.string(),
    aliases: z
      .record(z.string(), z.int())
      .meta({ description: "Version by alias.", examples: [{ stable: 2 }] }),
    weights: z
      .record(z.string(), z.number())
      .optional()
      .meta({
        description:
          "Aliases that answer for `stable`, with their shares of its requests; equal `x-request-id`s get the same version.",
        examples: [{ canary: 0.05 }],
      }),
  })
  .meta({ id: "ModelSummary" });

export const modelListSchema = z
  .object({ models: z.array(modelSummarySchema) })
  .meta({ id: "ModelList" });
export type ModelList = z.output<typeof modelListSchema>;

export const modelDetailSchema = modelSummarySchema
  .extend({
    versions: z.array(z.int()),
    version: z.int().meta({ description: "The version that the fields below describe." }),
    task: z.string(),
    description: z.string(),
    deadlineMs: z.int(),
    tiers: z.array(
      z
        .object({
          id: z.string(),
          place: z.string(),
          precision: z.string(),
          bytes: z.int().meta({ description: "Of the graph." }),
          exitConfidence: z.number().nullable().meta({
            description: "From this confidence on the tier's answer is taken; null: always.",
          }),
          saturatedExitConfidence: z.number().optional().meta({
            description:
              "In its place while the next tier has more to do than it can; such answers are marked as degraded.",
          }),
          p95Ms: z.number().optional().meta({
            description:
              "Of answering one input, where the model was calibrated and without the way there.",
          }),
          temperature: z.number().nullable().meta({
            description:
              "Of the calibration; null for a tier that gives tensors and no confidence.",
          }),
          figures: z.record(z.string(), z.number()),
          edge: z
            .object({
              how: z.enum(["bundled", "snapshot", "plain", "not"]),
              reason: z.string().optional(),
            })
            .optional()
            .meta({
              description:
                "Of an edge tier: how the deployed engine starts it, or why it does not and the next tier answers.",
            }),
        })
        .meta({ id: "TierDetail" }),
    ),
    risk: z
      .object({
        what: z.string(),
        epsilon: z.number(),
        delta: z.number(),
        method: z.string(),
        samples: z.int(),
        empiricalRisk: z.number(),
      })
      .optional()
      .meta({
        description:
          "What the exits were chosen for: with confidence 1 - delta, the risk is at most epsilon.",
      }),
    figures: z
      .record(z.string(), z.number())
      .meta({ description: "Of the cascade as a whole, measured when it was made." }),
    report: z.string().optional().meta({
      description: "Where this version's report is; none, where it was published without.",
    }),
  })
  .meta({ id: "ModelDetail" });
export type ModelDetail = z.output<typeof modelDetailSchema>;
