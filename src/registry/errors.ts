// Errors of reading the model store: names, manifests, aliases, artifacts.

import { shown, errorFactory, type ErrorTable, quoted } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const registryErrorTable = {
  invalid_model_name: {
    status: 400,
    remedy:
      "Use name, name@version or name@alias: lower-case letters, digits, '-', '_', '.', at most 64 characters.",
  },
  model_not_found: {
    status: 404,
    remedy:
      "GET /v1/models of the edge and POST /v2/repository/index of a region list what there is; `edgetier model publish` adds one.",
  },
  version_not_found: {
    status: 404,
    remedy:
      "GET /v1/models/{model} of the edge and /v2/models/{model} of a region list its versions.",
  },
  alias_not_found: { status: 404, remedy: "GET /v1/models/{model} lists its aliases." },
  artifact_corrupt: {
    status: 503,
    remedy: "The operator should publish the model again.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
  manifest_untrusted: {
    status: 503,
    remedy:
      "The operator should publish the model again, signed with a key of EDGETIER_TRUSTED_KEYS.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
  aliases_invalid: {
    status: 503,
    remedy: "The operator should correct or delete models/{model}/aliases.json in the store.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(registryErrorTable);

export const registryErrors = {
  invalidModelRef: (ref: string) =>
    makeError("invalid_model_name", `${shown(ref)} is not a model name.`),
  modelNotFound: (model: string) =>
    makeError("model_not_found", `Request for unknown model: ${quoted(model)} is not found.`),
  versionNotFound: (model: string, version: number) =>
    makeError(
      "version_not_found",
      `Request for unknown model: ${quoted(model)} version ${version} is not found.`,
      { values: { model } },
    ),
  aliasNotFound: (model: string, alias: string) =>
    makeError("alias_not_found", `Model ${shown(model)} has no alias ${shown(alias)}.`, {
      values: { model },
    }),
  artifactCorrupt: (digest: string, reason: string) =>
    makeError("artifact_corrupt", `Artifact ${digest.slice(0, 12)}… was refused: ${reason}.`),
  manifestUntrusted: (model: string, version: number, reason: string) =>
    makeError(
      "manifest_untrusted",
      `The manifest of ${model}@${version} is not trusted: ${reason}.`,
    ),
  aliasesInvalid: (model: string, problems: readonly string[]) =>
    makeError("aliases_invalid", `The aliases of ${model} are not valid: ${problems.join("; ")}.`, {
      values: { model },
    }),
} as const;
