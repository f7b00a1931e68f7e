// `edgetier model rollback <model>`: an alias names again what it named before.

import { defineCommand } from "citty";
import { rollback } from "../../registry/aliases.ts";
import { parseModelRef } from "../../registry/model-ref.ts";
import { aliasArg, readAliasName, tellMove } from "../alias-options.ts";
import { jsonArg } from "../output.ts";
import { openStore, storeArgs } from "../store-options.ts";

export const command = defineCommand({
  meta: { name: "rollback", description: "Move an alias back to the version that it named before" },
  args: {
    model: { type: "positional", description: "Its name", required: true },
    ...aliasArg,
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const alias = readAliasName(args.alias, "edgetier model rollback");
    const { model } = parseModelRef(`${args.model}@${alias}`);
    tellMove(await rollback(openStore(args), model, alias), args.json === true);
  },
});
