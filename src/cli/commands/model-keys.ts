// `edgetier model keys`: creates and shows keys for signing manifests.

import { writeFile } from "node:fs/promises";
import { defineCommand } from "citty";
import { reasonOf } from "../../core/errors.ts";
import { generateSigningKey, formatPublicKeys } from "../../registry/signing-keys.ts";
import { cliErrors } from "../errors.ts";
import { jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { readKeyFile } from "../signing-args.ts";

const generate = defineCommand({
  meta: {
    name: "generate",
    description: "Create a private key and show its public key",
  },
  args: {
    out: {
      type: "string",
      alias: "o",
      valueHint: "file",
      description: "Output file of the private key; an existing file is never overwritten",
      required: true,
    },
    ...jsonArg,
  },
  async run({ args }) {
    const name = "edgetier model keys generate";
    await writeFile(args.out, await generateSigningKey(), { mode: 0o600, flag: "wx" }).catch(
      (error: unknown) => {
        throw cliErrors.usage(`Cannot write ${args.out}: ${reasonOf(error)}`, name);
      },
    );
    await printPublicKey(args.out, name, args.json === true);
  },
});

const show = defineCommand({
  meta: { name: "show", description: "Show the id and the public key of a private key" },
  args: {
    file: {
      type: "positional",
      description: "Private key: PKCS #8, as PEM or its base64",
      required: true,
    },
    ...jsonArg,
  },
  run: async ({ args }) =>
    await printPublicKey(args.file, "edgetier model keys show", args.json === true),
});

async function printPublicKey(file: string, command: string, json: boolean): Promise<void> {
  const { id, publicKey } = await readKeyFile(file, file, command);
  const text = formatPublicKeys([publicKey]);
  if (json) return printJson({ keyId: id, publicKey: text });
  printLine(
    renderTable([
      ["key id", id],
      ["public key", text],
    ]),
  );
  printLine(
    `\nSet EDGETIER_TRUSTED_KEYS=${text} at edge and regions to trust it. Several keys are comma-separated.`,
  );
}

export const command = defineCommand({
  meta: { name: "keys", description: "Manage keys for signing manifests" },
  subCommands: { generate, show },
});
