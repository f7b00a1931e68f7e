// Errors of serving one prediction at the edge.

import { shown, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const servingErrorTable = {
  takes_tensors: { status: 400, remedy: "Use POST /v2/models/{model}/infer." },
  gives_embeddings: { status: 400, remedy: "Use POST /v1/embeddings." },
  gives_no_embeddings: {
    status: 400,
    remedy: "Name a model whose task is embedding: GET /v1/models lists what there is.",
  },
  too_many_tokens: { status: 413, remedy: "Split them into several requests." },
  invalid_dimensions: { status: 400, remedy: "Ask for 1 to {most}, or leave it out." },
  tier_not_servable: {
    status: 503,
    remedy:
      "The region answers instead; the operator should run `edgetier engine build` and deploy again.",
  },
  not_cached: { status: 504, remedy: "Leave out cache-control: only-if-cached." },
} as const satisfies ErrorTable;

const makeError = errorFactory(servingErrorTable);

export const servingErrors = {
  takesTensors: (model: string) =>
    makeError("takes_tensors", `Model ${shown(model)} takes tensors, and gives tensors.`, {
      values: { model },
    }),
  givesEmbeddings: (model: string) =>
    makeError("gives_embeddings", `Model ${shown(model)} gives embeddings, and no labels.`),
  givesNoEmbeddings: (model: string, task: string) =>
    makeError(
      "gives_no_embeddings",
      `Model ${shown(model)} has the task ${task}, and gives no embeddings.`,
    ),
  tooManyTokens: (count: number, maxTokens: number) =>
    makeError(
      "too_many_tokens",
      `The inputs have ${count} tokens; at most ${maxTokens} are taken at once.`,
    ),
  invalidDimensions: (dimensions: number, most: number) =>
    makeError(
      "invalid_dimensions",
      `The dimensions ${dimensions} are more than this model's ${most}.`,
      { values: { most } },
    ),
  tierNotServable: (tier: string, reason: string) =>
    makeError("tier_not_servable", `Tier ${tier} cannot run at this edge: ${reason}.`),
  notCached: (inputs: number) =>
    makeError(
      "not_cached",
      `No cache has the answer to ${inputs} of the inputs, and none may be computed.`,
    ),
} as const;
