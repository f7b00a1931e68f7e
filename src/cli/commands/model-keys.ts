// `edgetier model keys`: the keys that manifests are signed with.

import { cliErrors } from "../errors.ts";
import { writeFile } from "node:fs/promises";
import { defineCommand } from "citty";
import { reasonOf } from "../../core/errors.ts";
import { generateSigningKey, formatPublicKeys } from "../../registry/signing-keys.ts";
import { jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { readKeyFile } from "../signing-args.ts";

const generate = defineCommand({
  meta: {
    name: "generate",
    description: "Make a private key, and show the public one that goes with it",
  },
  args: {
    out: {
      type: "string",
      alias: "o",
      valueHint: "file",
      description: "Where the private key goes; a file that is there stays",
      required: true,
    },
    ...jsonArg,
  },
  async run({ args }) {
    const name = "edgetier model keys generate";
    await writeFile(args.out, await generateSigningKey(), { mode: 0o600, flag: "wx" }).catch(
      (error: unknown) => {
        throw cliErrors.usage(`${args.out} cannot be written: ${reasonOf(error)}`, name);
      },
    );
    await printPublicKey(args.out, name, args.json === true);
  },
});

const inspect = defineCommand({
  meta: { name: "show", description: "Show the id and the public key of a private key" },
  args: {
    file: {
      type: "positional",
      description: "The private key: PKCS #8, PEM or its base64",
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
    `\nEdge and region trust it with EDGETIER_TRUSTED_KEYS=${text}; several have commas between them.`,
  );
}

export const command = defineCommand({
  meta: { name: "keys", description: "The keys that manifests are signed with" },
  subCommands: { generate, show: inspect },
});
