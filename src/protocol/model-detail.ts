// Responses of `GET /v1/models` and `GET /v1/models/{model}`.

import * as z from "zod";

export const modelSummarySchema = z
  .object({
    model: z.string(),
    aliases: z
      .record(z.string(), z.int())
      .meta({ description: "Version of each alias.", examples: [{ stable: 2 }] }),
    weights: z
      .record(z.string(), z.number())
      .optional()
      .meta({
        description:
          "Aliases that take requests of `stable`, with their shares. Requests with the same `x-request-id` get the same version.",
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
          bytes: z.int().meta({ description: "Size of the graph." }),
          exitConfidence: z.number().nullable().meta({
            description:
              "Minimum confidence to accept the tier's output; null accepts every output.",
          }),
          saturatedExitConfidence: z.number().optional().meta({
            description:
              "Replaces `exitConfidence` while the next tier is saturated. Such outputs are marked as degraded.",
          }),
          p95Ms: z.number().optional().meta({
            description:
              "p95 latency of one input on the calibration machine, without network time.",
          }),
          temperature: z.number().nullable().meta({
            description:
              "Calibration temperature; null for a tier that returns tensors without confidences.",
          }),
          figures: z.record(z.string(), z.number()),
          edge: z
            .object({
              status: z.enum(["bundled", "snapshot", "plain", "unsupported"]).optional().meta({
                description:
                  "How the deployed engine starts the tier; `unsupported` if it cannot, so that the next tier answers. Older deployments send only `how`.",
              }),
              how: z.enum(["bundled", "snapshot", "plain", "not"]).meta({
                deprecated: true,
                description: "Use `status`. The value `not` stands for `unsupported`.",
              }),
              reason: z
                .string()
                .optional()
                .meta({ description: "Why the engine does not support the tier." }),
            })
            .optional()
            .meta({
              description:
                "How the deployed engine starts an edge tier, or the reason why it cannot and the next tier serves instead.",
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
          "Guarantee of the chosen exits: with confidence 1 - delta, the risk is at most epsilon.",
      }),
    figures: z
      .record(z.string(), z.number())
      .meta({ description: "Figures of the whole cascade, measured at build time." }),
    report: z.string().optional().meta({
      description: "URL of this version's report; absent if it was published without one.",
    }),
  })
  .meta({ id: "ModelDetail" });
export type ModelDetail = z.output<typeof modelDetailSchema>;

type EdgeTierDetail = NonNullable<ModelDetail["tiers"][number]["edge"]>;

/** Reads the status of an edge tier; responses of older deployments carry it in `how`. */
export const readEdgeTierStatus = ({
  status,
  how,
}: EdgeTierDetail): NonNullable<EdgeTierDetail["status"]> =>
  status ?? (how === "not" ? "unsupported" : how);
