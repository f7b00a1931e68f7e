// Wire format of the predict route. The schemas validate requests and generate the OpenAPI document.

import * as z from "zod";
import { formatZodIssues } from "../core/config.ts";
import { describeType } from "../core/describe-type.ts";
import { formatValue } from "../core/errors.ts";

const textSchema = z
  .string()
  .meta({ description: "One text.", examples: ["how do i freeze my account"] });
const imageSchema = z
  .strictObject({
    b64: z.string().meta({ contentEncoding: "base64", description: "One JPEG or PNG file." }),
  })
  .meta({ id: "ImageInput" });
const inputSchema = z.union([textSchema, imageSchema]).meta({ id: "PredictInput" });

const topKSchema = z.int().min(1).max(1000);

export const predictParametersSchema = z
  .strictObject({
    topK: topKSchema.default(5).meta({ description: "Number of labels in `scores`." }),
    maxTier: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .meta({ description: "Id of the last tier that may be called. Its output is final." }),
    cache: z.enum(["use", "bypass", "refresh"]).optional().meta({
      description:
        "`bypass` skips the cache; `refresh` recomputes and stores the response. Overrides `no-store`, `no-cache` and `only-if-cached` of the header `cache-control`.",
    }),
  })
  .meta({ id: "PredictParameters" });

export const predictRequestSchema = z
  .strictObject({
    inputs: z.union([inputSchema, z.array(inputSchema).min(1)]),
    parameters: predictParametersSchema.optional(),
  })
  .meta({ id: "PredictRequest" });

/** Parameters in the query string, for requests whose body is the input itself. */
export const predictParametersQuerySchema = z.strictObject({
  topK: z.coerce.number<string>().pipe(topKSchema).optional(),
  maxTier: predictParametersSchema.shape.maxTier,
  cache: predictParametersSchema.shape.cache,
});
export const predictQuerySchema = predictParametersQuerySchema.extend({
  input: z.string().meta({ description: "One text." }),
});

export type PredictParameters = z.output<typeof predictParametersSchema>;

const EXPECTED_INPUT = 'a string or {"b64": …}';
/** Limits the reported problems, because a body can have thousands of wrong inputs. */
const MAX_PROBLEMS = 8;

/**
 * Formats a failed predict request as one line per problem. The line of a wrong input has its position and its type.
 * @param request the value that `predictRequestSchema` rejected
 */
export function formatPredictIssues(error: z.ZodError, request: unknown): string[] {
  const isAboutInputs = ({ path }: z.core.$ZodIssue) => path[0] === "inputs";
  const inputProblems = error.issues.some(isAboutInputs)
    ? listInputProblems((request as { readonly inputs?: unknown }).inputs)
    : [];
  const otherIssues = error.issues.filter((issue) => !isAboutInputs(issue));
  const otherProblems = formatZodIssues(new z.ZodError(otherIssues));
  return [...inputProblems, ...otherProblems].slice(0, MAX_PROBLEMS);
}

function listInputProblems(inputs: unknown): string[] {
  if (inputs === undefined) return [`\`inputs\` is missing; expected ${EXPECTED_INPUT}`];
  if (!Array.isArray(inputs)) return listElementProblems(inputs, "inputs");
  if (inputs.length === 0)
    return [`\`inputs\` is an empty array; expected at least one element, ${EXPECTED_INPUT}`];
  return inputs.flatMap((input, index) => listElementProblems(input, `inputs[${index}]`));
}

function listElementProblems(input: unknown, path: string): string[] {
  if (inputSchema.safeParse(input).success) return [];
  if (typeof input !== "object" || input === null || Array.isArray(input))
    return [`\`${path}\` is ${describeType(input)}; expected ${EXPECTED_INPUT}`];
  if (!("b64" in input))
    return [`\`${path}\` is an object without \`b64\`; expected ${EXPECTED_INPUT}`];
  if (typeof input.b64 !== "string")
    return [`\`${path}.b64\` is ${describeType(input.b64)}; expected a base64 string`];
  const unknownField = Object.keys(input).find((name) => name !== "b64");
  return [`\`${path}\` has the unknown field ${formatValue(unknownField)}; expected {"b64": …}`];
}

export const predictOutputSchema = z
  .object({
    label: z.string(),
    score: z.number().meta({ description: "Calibrated probability of `label`." }),
    scores: z.array(z.object({ label: z.string(), score: z.number() }).meta({ id: "LabelScore" })),
    tier: z.string().meta({ description: "Id of the tier that produced this output." }),
    confidence: z
      .number()
      .meta({ description: "Value that the tier's exit rule compares with its threshold." }),
    degraded: z.boolean().meta({
      description:
        "True if a fault or the deadline prevented a call of a better tier. The output is then the best one so far.",
    }),
    degradedBy: z
      .string()
      .optional()
      .meta({ description: "Code of the error that prevented the call." }),
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
