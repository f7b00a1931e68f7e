// Serving errors: failures of requests that the edge serves.

import { formatValue, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const servingErrorTable = {
  takes_tensors: { status: 400, remedy: "Use POST /v2/models/{model}/infer." },
  gives_embeddings: { status: 400, remedy: "Use POST /v1/embeddings." },
  gives_no_embeddings: {
    status: 400,
    remedy: "Use a model whose task is embedding; GET /v1/models lists all models.",
  },
  too_many_tokens: { status: 413, remedy: "Split the inputs into several requests." },
  invalid_dimensions: { status: 400, remedy: "Send 1 to {maxDimensions}, or omit `dimensions`." },
  tier_not_servable: {
    status: 503,
    remedy:
      "Configure a region tier, or have the operator run `edgetier engine build` and deploy again.",
  },
  not_cached: { status: 504, remedy: "Send the request without cache-control: only-if-cached." },
} as const satisfies ErrorTable;

const makeError = errorFactory(servingErrorTable);

export const servingErrors = {
  takesTensors: (model: string) =>
    makeError(
      "takes_tensors",
      `Model ${formatValue(model)} accepts and returns tensors, not task inputs.`,
      {
        values: { model },
      },
    ),
  givesEmbeddings: (model: string) =>
    makeError("gives_embeddings", `Model ${formatValue(model)} returns embeddings, not labels.`),
  givesNoEmbeddings: (model: string, task: string) =>
    makeError(
      "gives_no_embeddings",
      `Model ${formatValue(model)} returns no embeddings; its task is ${task}.`,
    ),
  tooManyTokens: (count: number, maxTokens: number) =>
    makeError(
      "too_many_tokens",
      `The inputs have ${count} tokens; a request may have at most ${maxTokens}.`,
    ),
  invalidDimensions: (dimensions: number, maxDimensions: number) =>
    makeError(
      "invalid_dimensions",
      `dimensions is ${dimensions}; the model has ${maxDimensions}.`,
      { values: { maxDimensions } },
    ),
  tierNotServable: (tier: string, reason: string) =>
    makeError("tier_not_servable", `Tier ${tier} cannot run at the edge: ${reason}.`),
  notCached: (inputs: number) =>
    makeError(
      "not_cached",
      `The results of ${inputs} inputs are not cached, and the request forbids computing them.`,
      { facts: { inputs } },
    ),
} as const;
