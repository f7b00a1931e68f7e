// Errors of reading the model store: model names, manifests, aliases, artifacts.

import { formatValue, errorFactory, type ErrorTable, quoteName } from "../core/errors.ts";

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
      "List the models with GET /v1/models (edge) or POST /v2/repository/index (region), or add one with `edgetier model publish`.",
  },
  version_not_found: {
    status: 404,
    remedy:
      "List its versions with GET /v1/models/{model} (edge) or GET /v2/models/{model} (region).",
  },
  alias_not_found: { status: 404, remedy: "List its aliases with GET /v1/models/{model}." },
  artifact_corrupt: {
    status: 503,
    remedy: "Ask the operator to publish the model again.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
  manifest_untrusted: {
    status: 503,
    remedy:
      "Ask the operator to publish the model again, signed with a key of EDGETIER_TRUSTED_KEYS.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
  aliases_invalid: {
    status: 503,
    remedy: "Ask the operator to correct or delete models/{model}/aliases.json in the store.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(registryErrorTable);

export const registryErrors = {
  invalidModelRef: (ref: string) =>
    makeError("invalid_model_name", `${formatValue(ref)} is not a valid model name.`),
  modelNotFound: (model: string) =>
    makeError("model_not_found", `Request for unknown model: ${quoteName(model)} is not found.`),
  versionNotFound: (model: string, version: number) =>
    makeError(
      "version_not_found",
      `Request for unknown model: ${quoteName(model)} version ${version} is not found.`,
      { values: { model } },
    ),
  aliasNotFound: (model: string, alias: string) =>
    makeError(
      "alias_not_found",
      `Model ${formatValue(model)} has no alias ${formatValue(alias)}.`,
      {
        values: { model },
      },
    ),
  artifactCorrupt: (digest: string, reason: string) =>
    makeError("artifact_corrupt", `Artifact ${digest.slice(0, 12)}… is corrupt: ${reason}.`),
  manifestUntrusted: (model: string, version: number, reason: string) =>
    makeError(
      "manifest_untrusted",
      `The manifest of ${model}@${version} is not trusted: ${reason}.`,
    ),
  aliasesInvalid: (model: string, problems: readonly string[]) =>
    makeError("aliases_invalid", `The aliases of ${model} are invalid: ${problems.join("; ")}.`, {
      values: { model },
    }),
} as const;
