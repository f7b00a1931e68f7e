// Reads build.json of a model project: the candidates of each tier, their steps and their
// acceptance bounds. The types follow from the schema.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
import { RISK_KINDS } from "../../registry/manifest.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { CALIBRATION_METHODS } from "../calibrate/fit-calibration.ts";
import { RANGE_METHODS } from "../quantize/range-selection.ts";
import { modernizeBuildPlan } from "./deprecated-steps.ts";

export const BUILD_PLAN_FILE = "build.json";

const ratioSchema = z.number().gt(0).lt(1);
const pruneMethodSchema = z.enum(["magnitude", "channel"]);
const integerTypeSchema = z.enum(["uint8", "int8"]);

const stepSchema = z.discriminatedUnion("kind", [
  /** Folds constants, and folds nodes into their neighbors. */
  z.strictObject({ kind: z.literal("optimize") }),
  z.strictObject({ kind: z.literal("dequantize") }),
  z.strictObject({
    kind: z.literal("quantize"),
    mode: z.enum(["dynamic", "static"]),
    rangeMethod: z.enum(RANGE_METHODS).optional(),
    percentile: z.number().gt(50).max(100).optional(),
    perChannel: z.boolean().optional(),
    reduceRange: z.boolean().optional(),
    weights: integerTypeSchema.optional(),
    activations: integerTypeSchema.optional(),
    symmetricActivations: z.boolean().optional(),
    equalize: z.boolean().optional(),
    correctBiases: z.boolean().optional(),
    /** Operators or nodes that stay in FP32. */
    keep: z.array(z.string().min(1)).optional(),
    /**
     * Keeps the most harmful layers in FP32, one more at a time, until the loss in points is at
     * most this.
     */
    keepUntilLossPoints: z.number().min(0).optional(),
  }),
  z.strictObject({
    kind: z.literal("prune"),
    method: pruneMethodSchema,
    ratio: ratioSchema,
    scope: z.enum(["part", "model"]).default("model"),
    multiple: z.int().min(1).optional(),
  }),
  z.strictObject({
    kind: z.literal("prune-to-budget"),
    method: pruneMethodSchema,
    /**
     * Share of the multiplications that remains, or of the bytes for `magnitude`. The parts whose
     * pruning costs the least accuracy lose the most.
     */
    budget: ratioSchema,
    multiple: z.int().min(1).optional(),
  }),
  z.strictObject({ kind: z.literal("fp16") }),
]);
export type BuildStep = z.output<typeof stepSchema>;
export type QuantizeStep = Extract<BuildStep, { readonly kind: "quantize" }>;

const candidateSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{0,47}$/, "must be 1 to 48 characters of a-z, 0-9, '-', '.'"),
  /**
   * A graph that replaces the tier's source, for example one that was trained for this candidate.
   */
  source: z.string().min(1).optional(),
  /** Steps in the order of their application; an empty list takes the graph as it is. */
  steps: z.array(stepSchema).default([]),
});
export type CandidatePlan = z.output<typeof candidateSchema>;

const tierPlanSchema = z.strictObject({
  tier: z.string().min(1),
  /**
   * Path in the project of the graph that candidates are made from and compared with; `reference`
   * makes it FP32.
   */
  source: z.string().min(1),
  /** Steps that turn the source into the reference. */
  reference: z.array(stepSchema).default([]),
  bounds: z.strictObject({
    maxLossPoints: z.number().min(0).default(0.3),
    maxBytes: z.int().min(1).optional(),
    maxLatencyRatio: z.number().gt(0).optional(),
  }),
  /** Quantity that the chosen candidate minimizes, among those within the bounds. */
  prefer: z.enum(["latency", "bytes"]).default("latency"),
  candidates: z.array(candidateSchema).min(1).max(32),
});
export type TierPlan = z.output<typeof tierPlanSchema>;

/**
 * Risk that exits are chosen for (toolchain/calibrate), in place of a bound on the samples' loss.
 * The plan must then name every tier. These samples also chose the graphs, which weakens the
 * guarantee: run `edgetier model calibrate` on other samples for its full worth.
 */
const riskPlanSchema = z.strictObject({
  what: z.enum(RISK_KINDS).default("disagreement"),
  epsilon: z.number().gt(0).lt(1),
  delta: z.number().gt(0).lt(1).default(0.05),
  /** Without a method, cross-validation selects the best one. */
  method: z.enum(CALIBRATION_METHODS).optional(),
});

const currentPlanSchema = z
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
          message: `tier ${tier}: candidate names must be unique and must not be "reference"`,
        });
    }
  });
export type BuildPlan = z.output<typeof currentPlanSchema>;

/** Receives one line for each file with deprecated spellings. */
export type WarningListener = (warning: string) => unknown;

/**
 * @param json content of build.json
 * @param path file name for messages
 * @param onWarning receives a line with the file and the current spellings if the file uses
 *   deprecated ones
 * @throws invalid_project
 */
export function parseBuildPlan(
  json: unknown,
  path: string,
  onWarning: WarningListener = () => {},
): BuildPlan {
  const planSchema = z.preprocess((written) => {
    const { json: current, replacements } = modernizeBuildPlan(written);
    if (replacements.length > 0)
      onWarning(`${path} uses deprecated names. Replace them: ${replacements.join(", ")}.`);
    return current;
  }, currentPlanSchema);
  const parsed = planSchema.safeParse(json);
  if (!parsed.success) throw publishingErrors.invalidProject(path, formatZodIssues(parsed.error));
  return parsed.data;
}

/** @returns undefined if the folder has no build.json @throws invalid_project */
export async function readBuildPlan(
  folder: string,
  onWarning?: WarningListener,
): Promise<BuildPlan | undefined> {
  const path = join(folder, BUILD_PLAN_FILE);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw publishingErrors.invalidProject(path, [`it cannot be read: ${reasonOf(error)}`]);
  }
  try {
    return parseBuildPlan(JSON.parse(text), path, onWarning);
  } catch (error) {
    if (error instanceof SyntaxError)
      throw publishingErrors.invalidProject(path, [`it is not JSON: ${error.message}`]);
    throw error;
  }
}
