// What has to hold between the tiers of one model, and between a tier's parts.

import type * as z from "zod";
import type { tensorSpecSchema } from "./common-schemas.ts";

export interface PlacedTier {
  readonly id: string;
  readonly place: string;
}

export interface ExitingTier {
  readonly exit: object | null;
}

type Spec = z.output<typeof tensorSpecSchema>;

export interface ResumingTier extends PlacedTier {
  readonly inputs: readonly Spec[];
  readonly outputs: readonly Spec[];
  readonly resumes?: { readonly tier: string; readonly inputs: readonly Spec[] } | undefined;
}

export interface ImageTier {
  readonly id: string;
  readonly inputs: readonly Spec[];
  readonly preprocessor: { readonly width: number; readonly height: number };
}

export interface EncoderTier {
  readonly preprocessor: { readonly maxTokens: number };
  readonly pooling: string;
  readonly output: string;
  readonly outputs: readonly Spec[];
}

/** Edge tiers first, ids unique. */
export function checkTierOrder(tiers: readonly PlacedTier[], context: z.RefinementCtx): void {
  const problem = (message: string) => context.addIssue({ code: "custom", message });
  if (new Set(tiers.map((one) => one.id)).size !== tiers.length) problem("tier ids must be unique");
  const firstRegion = tiers.findIndex((one) => one.place === "region");
  if (firstRegion >= 0 && tiers.slice(firstRegion).some((one) => one.place === "edge"))
    problem("edge tiers must come before region tiers");
}

/** All but the last with an exit rule. */
export function checkExitRules(
  tiers: readonly (PlacedTier & ExitingTier)[],
  context: z.RefinementCtx,
): void {
  tiers.forEach((one, index) => {
    const last = index === tiers.length - 1;
    if (last === (one.exit === null)) return;
    context.addIssue({
      code: "custom",
      message: `tier ${one.id}: ${last ? "the last tier must have exit null" : "a tier before the last needs an exit rule"}`,
    });
  });
}

/** What a region tier goes on from must be what the edge tier has, and must not look like what the region tier itself takes. */
export function checkResumptions(tiers: readonly ResumingTier[], context: z.RefinementCtx): void {
  for (const { id, place, inputs, resumes } of tiers) {
    if (resumes === undefined) continue;
    const problem = (message: string) =>
      context.addIssue({ code: "custom", message: `tier ${id}: ${message}` });
    const first = tiers.find((one) => one.id === resumes.tier && one.place === "edge");
    if (place !== "region" || first === undefined) {
      problem("only a region tier resumes, and only an edge tier");
      continue;
    }
    const made = resumes.inputs.filter(({ name }) =>
      first.outputs.some((output) => output.name === name),
    );
    const foreign = resumes.inputs.find(
      (input) =>
        ![...first.outputs, ...first.inputs].some(
          ({ name, datatype }) => name === input.name && datatype === input.datatype,
        ),
    );
    if (foreign !== undefined)
      problem(
        `it resumes with ${foreign.name}, which tier ${first.id} neither makes nor takes in that form`,
      );
    if (made.every(({ name }) => inputs.some((own) => own.name === name)))
      problem(`it resumes with nothing that tier ${first.id} makes and it does not take itself`);
  }
}

/** What the preprocessor makes has to be what the graph takes. */
export function checkImageInputs(tiers: readonly ImageTier[], context: z.RefinementCtx): void {
  for (const { id, inputs, preprocessor } of tiers) {
    const made = [-1, 3, preprocessor.height, preprocessor.width];
    const [pixels, ...others] = inputs;
    const fits =
      pixels?.name === "pixels" &&
      pixels.datatype === "FP32" &&
      pixels.shape.length === made.length &&
      pixels.shape.every((size, axis) => size === -1 || size === made[axis]);
    if (!fits || others.length > 0)
      context.addIssue({
        code: "custom",
        message: `tier ${id}: its one input must be pixels, FP32 [${made.join(", ")}]`,
      });
  }
}

/** One tier at each place, of the same tokens, whose output is what its pooling needs. */
export function checkEncoderOutputs(
  tiers: readonly (PlacedTier & EncoderTier)[],
  context: z.RefinementCtx,
): void {
  const problem = (message: string) => context.addIssue({ code: "custom", message });
  if (new Set(tiers.map(({ place }) => place)).size !== tiers.length)
    problem("an embedding model has at most one edge tier and one region tier");
  if (new Set(tiers.map(({ preprocessor }) => preprocessor.maxTokens)).size > 1)
    problem("the tiers of an embedding model read as many tokens");
  for (const { id, output, outputs, pooling } of tiers) {
    const rank = pooling === "graph" ? 2 : 3;
    const spec = outputs.find(({ name }) => name === output);
    if (spec?.datatype !== "FP32" || spec.shape.length !== rank)
      problem(
        `tier ${id}: with pooling ${pooling} its output ${output} must be FP32 with ${rank} dimensions`,
      );
  }
}
