// Consistency checks between the tiers of a model, and between the parts of a tier.

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

/** Checks that edge tiers come first, and that ids are unique. */
export function checkTierOrder(tiers: readonly PlacedTier[], context: z.RefinementCtx): void {
  const report = (message: string) => context.addIssue({ code: "custom", message });
  if (new Set(tiers.map(({ id }) => id)).size !== tiers.length) report("tier ids must be unique");
  const firstRegion = tiers.findIndex(({ place }) => place === "region");
  if (firstRegion >= 0 && tiers.slice(firstRegion).some(({ place }) => place === "edge"))
    report("edge tiers must come before region tiers");
}

/** Checks that every tier but the last has an exit rule. */
export function checkExitRules(
  tiers: readonly (PlacedTier & ExitingTier)[],
  context: z.RefinementCtx,
): void {
  tiers.forEach(({ id, exit }, index) => {
    const isLast = index === tiers.length - 1;
    if (isLast === (exit === null)) return;
    context.addIssue({
      code: "custom",
      message: `tier ${id}: ${isLast ? "the last tier must have exit null" : "a tier before the last needs an exit rule"}`,
    });
  });
}

/**
 * Checks resumptions: their inputs must be values of the edge tier, and must be distinguishable from the region tier's
 * own inputs.
 */
export function checkResumptions(tiers: readonly ResumingTier[], context: z.RefinementCtx): void {
  for (const { id, place, inputs, resumes } of tiers) {
    if (resumes === undefined) continue;
    const report = (message: string) =>
      context.addIssue({ code: "custom", message: `tier ${id}: ${message}` });
    const edgeTier = tiers.find((tier) => tier.id === resumes.tier && tier.place === "edge");
    if (place !== "region" || edgeTier === undefined) {
      report("only a region tier can resume, and only from an edge tier");
      continue;
    }
    const resumedOutputs = resumes.inputs.filter(({ name }) =>
      edgeTier.outputs.some((output) => output.name === name),
    );
    const unknownInput = resumes.inputs.find(
      (input) =>
        ![...edgeTier.outputs, ...edgeTier.inputs].some(
          ({ name, datatype }) => name === input.name && datatype === input.datatype,
        ),
    );
    if (unknownInput !== undefined)
      report(
        `it resumes with ${unknownInput.name}, which is neither an output nor an input of tier ${edgeTier.id} with that datatype`,
      );
    if (resumedOutputs.every(({ name }) => inputs.some((input) => input.name === name)))
      report(
        `it must resume with at least one output of tier ${edgeTier.id} that is not among its own inputs`,
      );
  }
}

/** Checks that the graph's input matches the preprocessor's output. */
export function checkImageInputs(tiers: readonly ImageTier[], context: z.RefinementCtx): void {
  for (const { id, inputs, preprocessor } of tiers) {
    const expected = [-1, 3, preprocessor.height, preprocessor.width];
    const [pixels, ...others] = inputs;
    const fits =
      pixels?.name === "pixels" &&
      pixels.datatype === "FP32" &&
      pixels.shape.length === expected.length &&
      pixels.shape.every((size, axis) => size === -1 || size === expected[axis]);
    if (!fits || others.length > 0)
      context.addIssue({
        code: "custom",
        message: `tier ${id}: its only input must be pixels, FP32 [${expected.join(", ")}]`,
      });
  }
}

/** Checks that each place has one tier, that token limits are equal, and that outputs match the pooling. */
export function checkEncoderOutputs(
  tiers: readonly (PlacedTier & EncoderTier)[],
  context: z.RefinementCtx,
): void {
  const report = (message: string) => context.addIssue({ code: "custom", message });
  if (new Set(tiers.map(({ place }) => place)).size !== tiers.length)
    report("an embedding model has at most one edge tier and one region tier");
  if (new Set(tiers.map(({ preprocessor }) => preprocessor.maxTokens)).size > 1)
    report("the tiers of an embedding model must have the same maxTokens");
  for (const { id, output, outputs, pooling } of tiers) {
    const rank = pooling === "graph" ? 2 : 3;
    const spec = outputs.find(({ name }) => name === output);
    if (spec?.datatype !== "FP32" || spec.shape.length !== rank)
      report(
        `tier ${id}: with pooling ${pooling}, its output ${output} must be FP32 with ${rank} dimensions`,
      );
  }
}
