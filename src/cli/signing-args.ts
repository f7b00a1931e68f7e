// Signing arguments: reads the signing keys from `--sign-key`, else from EDGETIER_SIGNING_KEYS; without either, none.

import { readFile } from "node:fs/promises";
import { reasonOf } from "../core/errors.ts";
import { publishingErrors } from "../registry/publishing-errors.ts";
import { parseSigningKey, type SigningKey } from "../registry/signing-keys.ts";
import { cliErrors } from "./errors.ts";

export const signingArgs = {
  "sign-key": {
    type: "string",
    valueHint: "file",
    description:
      "Comma-separated private key files to sign with; by default, the keys in EDGETIER_SIGNING_KEYS. `edgetier model keys generate` creates one",
  },
} as const;

/**
 * Reads the keys to sign with.
 * @param files the option's value: comma-separated paths
 * @throws usage, invalid_signing_key
 */
export async function readSigningKeys(
  files: string | undefined,
  command: string,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<SigningKey[]> {
  if (files !== undefined)
    return await Promise.all(
      files.split(",").map((file) => readKeyFile(file, `--sign-key ${file}`, command)),
    );
  const { EDGETIER_SIGNING_KEYS: texts = "" } = environment;
  return texts === ""
    ? []
    : await Promise.all(
        texts.split(",").map((text) => requireSigningKey(text, "EDGETIER_SIGNING_KEYS")),
      );
}

/**
 * Reads one private key.
 * @param source the file as the user named it, for error messages
 * @throws usage, invalid_signing_key
 */
export async function readKeyFile(
  file: string,
  source: string,
  command: string,
): Promise<SigningKey> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    throw cliErrors.usage(`${source} cannot be read: ${reasonOf(error)}`, command);
  });
  return await requireSigningKey(text, source);
}

async function requireSigningKey(text: string, source: string): Promise<SigningKey> {
  const key = await parseSigningKey(text);
  if (key === undefined) throw publishingErrors.invalidSigningKey(source);
  return key;
}
