// `edgetier model rollback <model>`: an alias names again what it named before.

import { defineCommand } from "citty";
import { rollback } from "../../registry/aliases.ts";
import { parseModelRef } from "../../registry/model-ref.ts";
import { aliasArg, readAliasName, tellMove } from "../alias-options.ts";
import { purgeAfter, purgeArgs, readPurge } from "../cdn-purge.ts";
import { jsonArg, progressTo } from "../output.ts";
import { openStore, storeArgs } from "../store-options.ts";

const NAME = "edgetier model rollback";

export const command = defineCommand({
  meta: { name: "rollback", description: "Move an alias back to the version that it named before" },
  args: {
    model: { type: "positional", description: "Its name", required: true },
    ...aliasArg,
    ...purgeArgs,
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const alias = readAliasName(args.alias, NAME);
    const { model } = parseModelRef(`${args.model}@${alias}`);
    const purge = readPurge(args, NAME);
    const move = await rollback(openStore(args), model, alias);
    tellMove(move, args.json === true);
    if (purge !== undefined)
      await purgeAfter(
        { model, alias, version: move.after.version },
        purge,
        progressTo(args.json === true),
      );
  },
});
