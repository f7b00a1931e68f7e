// With which keys a command signs: its option, then EDGETIER_SIGNING_KEYS; without either it does not.

import { cliErrors } from "./errors.ts";
import { publishingErrors } from "../registry/publishing-errors.ts";
import { readFile } from "node:fs/promises";
import { reasonOf } from "../core/errors.ts";
import { parseSigningKey, type SigningKey } from "../registry/signing-keys.ts";

export const signingArgs = {
  "sign-key": {
    type: "string",
    valueHint: "file",
    description:
      "Private key to sign with, or several with commas between them; otherwise EDGETIER_SIGNING_KEYS has the keys themselves. `edgetier model keys generate` makes one",
  },
} as const;

/** @param files as the option has them @throws usage, invalid_signing_key */
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

/** @param named as the user named it @throws usage, invalid_signing_key */
export async function readKeyFile(
  file: string,
  named: string,
  command: string,
): Promise<SigningKey> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    throw cliErrors.usage(`${named} cannot be read: ${reasonOf(error)}`, command);
  });
  return await requireSigningKey(text, named);
}

async function requireSigningKey(text: string, named: string): Promise<SigningKey> {
  const key = await parseSigningKey(text);
  if (key === undefined) throw publishingErrors.invalidSigningKey(named);
  return key;
}
