// `edgetier model rollback <model>`: moves an alias back to its previous version.

import { defineCommand } from "citty";
import { rollbackAlias } from "../../registry/aliases.ts";
import { parseModelRef } from "../../registry/model-ref.ts";
import { aliasArg, readAliasName, printAliasMove } from "../alias-args.ts";
import { purgeMovedAlias, purgeArgs, parsePurgeOptions } from "../cdn-purge.ts";
import { jsonArg, createProgressPrinter } from "../output.ts";
import { openModelStore, storeArgs } from "../store-args.ts";

const NAME = "edgetier model rollback";

export const command = defineCommand({
  meta: { name: "rollback", description: "Move an alias back to its previous version" },
  args: {
    model: { type: "positional", description: "Name of the model", required: true },
    ...aliasArg,
    ...purgeArgs,
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const alias = readAliasName(args.alias, NAME);
    const { model } = parseModelRef(`${args.model}@${alias}`);
    const purge = parsePurgeOptions(args, NAME);
    const move = await rollbackAlias(openModelStore(args), model, alias);
    printAliasMove(move, args.json === true);
    if (purge !== undefined)
      await purgeMovedAlias(
        { model, alias, version: move.after.version },
        purge,
        createProgressPrinter(args.json === true),
      );
  },
});
