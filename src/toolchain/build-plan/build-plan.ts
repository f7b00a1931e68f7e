// build.json of a model project: which techniques are tried on which tier, and what a candidate has to hold. Its schema is
// the one source of its types.

import { publishingErrors } from "../../registry/publishing-errors.ts";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
import { RISK_KINDS } from "../../registry/manifest.ts";
import { CALIBRATION_METHODS } from "../calibrate/fit-calibration.ts";
import { RANGE_METHODS } from "../quantize/range-selection.ts";

export const BUILD_PLAN_FILE = "build.json";

const ratioSchema = z.number().gt(0).lt(1);
const pruneMethodSchema = z.enum(["magnitude", "channel"]);
const integerTypeSchema = z.enum(["uint8", "int8"]);

const stepSchema = z.discriminatedUnion("do", [
  /** What is computed from constants alone is computed now, and what folds into its neighbour is folded. */
  z.strictObject({ do: z.literal("optimise") }),
  z.strictObject({ do: z.literal("dequantise") }),
  z.strictObject({
    do: z.literal("quantise"),
    mode: z.enum(["dynamic", "static"]),
    calibration: z.enum(RANGE_METHODS).optional(),
    percentile: z.number().gt(50).max(100).optional(),
    perChannel: z.boolean().optional(),
    reduceRange: z.boolean().optional(),
    weights: integerTypeSchema.optional(),
    activations: integerTypeSchema.optional(),
    symmetricActivations: z.boolean().optional(),
    equalise: z.boolean().optional(),
    correctBiases: z.boolean().optional(),
    /** Operators or nodes that stay in FP32. */
    keep: z.array(z.string().min(1)).optional(),
    /** Keeps the layers that hurt most in FP32, one more at a time, until no more than so many points are lost. */
    keepUntilLossPoints: z.number().min(0).optional(),
  }),
  z.strictObject({
    do: z.literal("prune"),
    method: pruneMethodSchema,
    ratio: ratioSchema,
    scope: z.enum(["part", "model"]).default("model"),
    multiple: z.int().min(1).optional(),
  }),
  /** What may be left of the multiplications, or of the bytes with `magnitude`: those parts lose most whose loss costs least accuracy. */
  z.strictObject({
    do: z.literal("prune-to-budget"),
    method: pruneMethodSchema,
    budget: ratioSchema,
    multiple: z.int().min(1).optional(),
  }),
  z.strictObject({ do: z.literal("fp16") }),
]);
export type BuildStep = z.output<typeof stepSchema>;
export type QuantizeStep = Extract<BuildStep, { readonly do: "quantise" }>;

const candidateSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{0,47}$/, "must be 1 to 48 characters of a-z, 0-9, '-', '.'"),
  /** Another graph of the project than the tier's source, as one that was trained for it. */
  source: z.string().min(1).optional(),
  /** In their order; none takes the graph as it is. */
  steps: z.array(stepSchema).default([]),
});
export type CandidatePlan = z.output<typeof candidateSchema>;

const tierPlanSchema = z.strictObject({
  tier: z.string().min(1),
  /** The graph, a path in the project, that candidates are made from and compared with: in FP32 after `reference`. */
  source: z.string().min(1),
  /** What makes the reference of the source. */
  reference: z.array(stepSchema).default([]),
  bounds: z.strictObject({
    maxLossPoints: z.number().min(0).default(0.3),
    maxBytes: z.int().min(1).optional(),
    maxLatencyRatio: z.number().gt(0).optional(),
  }),
  /** Among the candidates that hold the bounds, the one with the least of it is taken. */
  prefer: z.enum(["latency", "bytes"]).default("latency"),
  candidates: z.array(candidateSchema).min(1).max(32),
});
export type TierPlan = z.output<typeof tierPlanSchema>;

/**
 * What exits are chosen for (toolchain/calibrate), in place of a bound on what the samples lose. Every tier has to be planned then. The
 * same samples have chosen the graphs: `edgetier model calibrate` on others than those gives the promise its full worth.
 */
const riskPlanSchema = z.strictObject({
  what: z.enum(RISK_KINDS).default("disagreement"),
  epsilon: z.number().gt(0).lt(1),
  delta: z.number().gt(0).lt(1).default(0.05),
  /** The best in cross-validation where it is left out. */
  method: z.enum(CALIBRATION_METHODS).optional(),
});

const buildPlanSchema = z
  .strictObject({
    schemaVersion: z.literal(1),
    tiers: z.array(tierPlanSchema).min(1),
    risk: riskPlanSchema.optional(),
  })
  .superRefine(({ tiers }, context) => {
    for (const { tier, candidates } of tiers) {
      const names = ["reference", ...candidates.map(({ name }) => name)];
      if (new Set(names).size !== names.length)
        context.addIssue({
          code: "custom",
          message: `tier ${tier}: names of candidates must be unique, and none "reference"`,
        });
    }
  });
export type BuildPlan = z.output<typeof buildPlanSchema>;

/** @param json of build.json @param where for messages @throws invalid_project */
export function parseBuildPlan(json: unknown, where: string): BuildPlan {
  const parsed = buildPlanSchema.safeParse(json);
  if (!parsed.success) throw publishingErrors.invalidProject(where, formatZodIssues(parsed.error));
  return parsed.data;
}

/** @returns undefined where the folder has none @throws invalid_project */
export async function readBuildPlan(folder: string): Promise<BuildPlan | undefined> {
  const path = join(folder, BUILD_PLAN_FILE);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw publishingErrors.invalidProject(path, [`it cannot be read: ${reasonOf(error)}`]);
  }
  try {
    return parseBuildPlan(JSON.parse(text), path);
  } catch (error) {
    if (error instanceof SyntaxError)
      throw publishingErrors.invalidProject(path, [`it is not JSON: ${error.message}`]);
    throw error;
  }
}
