// Errors of publishing models and of moving aliases.

import { formatValue, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const publishingErrorTable = {
  invalid_project: { status: 400, remedy: "See models/intent/model.json for an example." },
  unsafe_path: { status: 400, remedy: "Keep artifacts inside the model project." },
  version_exists: {
    status: 409,
    remedy: "Publish again to create a new version; versions are immutable.",
    isRetryable: true,
  },
  alias_conflict: { status: 409, remedy: "Check the aliases and retry.", isRetryable: true },
  would_not_be_trusted: {
    status: 400,
    remedy:
      "Sign it with a key of EDGETIER_TRUSTED_KEYS: --sign-key <file>, or EDGETIER_SIGNING_KEYS.",
  },
  invalid_signing_key: {
    status: 400,
    remedy:
      "Create one with `edgetier model keys generate` or `openssl genpkey -algorithm ed25519`.",
  },
  nothing_before: {
    status: 409,
    remedy:
      "Move it to any version with `edgetier model promote`; list them with `edgetier model list`.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(publishingErrorTable);

export const publishingErrors = {
  invalidProject: (path: string, problems: readonly string[]) =>
    makeError("invalid_project", `${path} is not a valid model project: ${problems.join("; ")}.`),
  unsafePath: (path: string) =>
    makeError("unsafe_path", `The path ${formatValue(path)} leaves the model's folder.`),
  versionExists: (model: string, version: number) =>
    makeError("version_exists", `Version ${version} of ${model} exists with different content.`),
  aliasConflict: (model: string) =>
    makeError("alias_conflict", `Another writer changed the aliases of ${model} concurrently.`),
  wouldNotBeTrusted: (reason: string) =>
    makeError("would_not_be_trusted", `Readers of the manifest would reject it: ${reason}.`),
  invalidSigningKey: (source: string) =>
    makeError("invalid_signing_key", `${source} contains no Ed25519 private key in PKCS #8.`),
  nothingBefore: (model: string, alias: string) =>
    makeError(
      "nothing_before",
      `The alias ${formatValue(alias)} of ${model} has no recorded previous version.`,
    ),
} as const;
