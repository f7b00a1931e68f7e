// Errors of publishing and of moving aliases.

import { shown, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const publishingErrorTable = {
  invalid_project: { status: 400, remedy: "See models/intent/model.json for an example." },
  unsafe_path: { status: 400, remedy: "Keep artifacts inside the model project." },
  version_exists: {
    status: 409,
    remedy: "Versions never change: publish again to make a new one.",
    isRetryable: true,
  },
  alias_conflict: { status: 409, remedy: "Look at them and try again.", isRetryable: true },
  would_not_be_trusted: {
    status: 400,
    remedy:
      "Sign it with a key of EDGETIER_TRUSTED_KEYS: --sign-key <file>, or EDGETIER_SIGNING_KEYS.",
  },
  invalid_signing_key: {
    status: 400,
    remedy:
      "`edgetier model keys generate` makes one; `openssl genpkey -algorithm ed25519` does as well.",
  },
  nothing_before: {
    status: 409,
    remedy: "`edgetier model promote` moves it to any version; `edgetier model list` shows them.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(publishingErrorTable);

export const publishingErrors = {
  invalidProject: (path: string, problems: readonly string[]) =>
    makeError("invalid_project", `${path} is not a valid model project: ${problems.join("; ")}.`),
  unsafePath: (path: string) =>
    makeError("unsafe_path", `The path ${shown(path)} leaves the model's folder.`),
  versionExists: (model: string, version: number) =>
    makeError("version_exists", `Version ${version} of ${model} exists with other content.`),
  aliasConflict: (model: string) =>
    makeError("alias_conflict", `The aliases of ${model} were changed by someone else meanwhile.`),
  wouldNotBeTrusted: (reason: string) =>
    makeError(
      "would_not_be_trusted",
      `The manifest would be refused by those who read it: ${reason}.`,
    ),
  invalidSigningKey: (where: string) =>
    makeError("invalid_signing_key", `${where} has no Ed25519 private key in PKCS #8.`),
  nothingBefore: (model: string, alias: string) =>
    makeError(
      "nothing_before",
      `It is not known what the alias ${shown(alias)} of ${model} named before.`,
    ),
} as const;
