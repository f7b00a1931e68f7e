// `edgetier model promote <model> <version|alias>`: moves an alias to another version.

import { defineCommand } from "citty";
import { promoteAlias } from "../../registry/aliases.ts";
import { DEFAULT_ALIAS, parseModelRef } from "../../registry/model-ref.ts";
import { aliasArg, readAliasName, printAliasMove } from "../alias-args.ts";
import { purgeMovedAlias, purgeArgs, parsePurgeOptions } from "../cdn-purge.ts";
import { cliErrors } from "../errors.ts";
import { jsonArg, createProgressPrinter } from "../output.ts";
import { openModelStore, storeArgs } from "../store-args.ts";

const NAME = "edgetier model promote";

export const command = defineCommand({
  meta: {
    name: "promote",
    description:
      "Move an alias to a version. An alias with a weight answers that share of the requests to `stable`",
  },
  args: {
    model: { type: "positional", description: "Name of the model", required: true },
    to: {
      type: "positional",
      description: "Version, or another alias whose version to use",
      required: true,
    },
    ...aliasArg,
    weight: {
      type: "string",
      valueHint: "share",
      description:
        "Share of the requests to `stable` that this alias answers, from 0 to 1; by default unchanged",
    },
    ...purgeArgs,
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const alias = readAliasName(args.alias, NAME);
    const { model, target } = parseModelRef(`${args.model}@${args.to}`);
    const weight = parseWeight(args.weight, alias);
    const purge = parsePurgeOptions(args, NAME);
    const move = await promoteAlias(openModelStore(args), model, target, { alias, weight });
    printAliasMove(move, args.json === true);
    if (purge !== undefined)
      await purgeMovedAlias(
        { model, alias, version: move.after.version },
        purge,
        createProgressPrinter(args.json === true),
      );
  },
});

/** Parses `--weight`, which is only for aliases other than the default. @throws usage */
function parseWeight(text: string | undefined, alias: string): number | undefined {
  if (text === undefined) return undefined;
  if (alias === DEFAULT_ALIAS)
    throw cliErrors.usage(
      `--weight does not apply to ${DEFAULT_ALIAS}; pass --alias with another alias`,
      NAME,
    );
  const weight = /^(?:0|1|[01]?\.[0-9]+)$/.test(text) ? Number(text) : Number.NaN;
  if (!(weight >= 0 && weight <= 1))
    throw cliErrors.usage(
      `--weight is ${JSON.stringify(text)}; expected a number from 0 to 1`,
      NAME,
    );
  return weight;
}
