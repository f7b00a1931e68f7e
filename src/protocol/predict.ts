// The predict route's wire format. These schemas validate requests and make the OpenAPI document.

import * as z from "zod";

const textSchema = z
  .string()
  .meta({ description: "One text.", examples: ["how do i freeze my account"] });
const imageSchema = z
  .strictObject({
    b64: z.string().meta({ contentEncoding: "base64", description: "One JPEG or PNG file." }),
  })
  .meta({ id: "ImageInput" });
const inputSchema = z
  .union([textSchema, imageSchema], 'expected a text, or an image as {"b64": "<base64>"}')
  .meta({ id: "PredictInput" });

const topKSchema = z.int().min(1).max(1000);

export const predictParametersSchema = z
  .strictObject({
    topK: topKSchema.default(5).meta({ description: "How many labels `scores` holds." }),
    maxTier: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .meta({ description: "Id of the last tier that may be asked; its answer is final." }),
    cache: z.enum(["use", "bypass", "refresh"]).optional().meta({
      description:
        "`bypass` neither reads nor stores; `refresh` stores a new answer. As the header `cache-control` says otherwise: `no-store`, `no-cache`, `only-if-cached`.",
    }),
  })
  .meta({ id: "PredictParameters" });

export const predictRequestSchema = z
  .strictObject({
    inputs: z.union([inputSchema, z.array(inputSchema).min(1)]),
    parameters: predictParametersSchema.optional(),
  })
  .meta({ id: "PredictRequest" });

/** Parameters as a query string gives them: of a body that is the input itself, and has no place for them. */
export const predictParametersQuerySchema = z.strictObject({
  topK: z.coerce.number<string>().pipe(topKSchema).optional(),
  maxTier: predictParametersSchema.shape.maxTier,
  cache: predictParametersSchema.shape.cache,
});
export const predictQuerySchema = predictParametersQuerySchema.extend({
  input: z.string().meta({ description: "One text." }),
});

export type PredictParameters = z.output<typeof predictParametersSchema>;

export const predictOutputSchema = z
  .object({
    label: z.string(),
    score: z.number().meta({ description: "Calibrated probability of `label`." }),
    scores: z.array(z.object({ label: z.string(), score: z.number() }).meta({ id: "LabelScore" })),
    tier: z.string().meta({ description: "The tier whose answer this is." }),
    confidence: z
      .number()
      .meta({ description: "What the tier's exit rule compared with its threshold." }),
    degraded: z.boolean().meta({
      description:
        "True: the best answer so far; a fault or the deadline kept a better tier from being asked.",
    }),
    degradedBy: z
      .string()
      .optional()
      .meta({ description: "Code of the error that kept it from being asked." }),
  })
  .meta({ id: "PredictOutput" });

export const predictResponseSchema = z
  .object({
    id: z.string(),
    model: z.string(),
    version: z.int(),
    outputs: z.array(predictOutputSchema),
    usage: z.object({
      tiers: z.array(
        z
          .object({ tier: z.string(), inputs: z.int(), error: z.string().optional() })
          .meta({ id: "TierUse" }),
      ),
    }),
  })
  .meta({ id: "PredictResponse" });
export type PredictResponse = z.output<typeof predictResponseSchema>;
