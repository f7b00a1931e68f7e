// `edgetier model list`: every model of the store with its versions and aliases.

import { defineCommand } from "citty";
import { previousVersionsOf, weightOf } from "../../registry/aliases.ts";
import { aliasedVersion, type Aliases, type AliasTarget } from "../../registry/manifest.ts";
import { jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { openModelStore, storeArgs } from "../store-args.ts";

export const command = defineCommand({
  meta: { name: "list", description: "List the models of the store" },
  args: { ...storeArgs, ...jsonArg },
  async run({ args }) {
    const store = openModelStore(args);
    const models = await Promise.all(
      (await store.listModels()).map(async (model) => ({
        model,
        versions: await store.listVersions(model),
        aliases: (await store.readAliases(model))?.aliases ?? {},
      })),
    );
    if (args.json) return printJson({ models });
    if (models.length === 0)
      return printLine("The store has no models. `edgetier model publish <folder>` adds one.");
    const rows = models.map(({ model, versions, aliases }) => [
      model,
      versions.at(-1) ?? "-",
      versions.length,
      formatAliases(aliases),
    ]);
    printLine(renderTable([["MODEL", "NEWEST", "VERSIONS", "ALIASES"], ...rows]));
  },
});

function formatAliases(aliases: Aliases): string {
  const more = (target: AliasTarget) => {
    const [before] = previousVersionsOf(target);
    const facts = [
      ...(weightOf(target) === undefined ? [] : [`weight ${weightOf(target)}`]),
      ...(before === undefined ? [] : [`${before} before`]),
    ];
    return facts.length === 0 ? "" : ` (${facts.join(", ")})`;
  };
  return Object.entries(aliases)
    .map(([name, target]) => `${name}=${aliasedVersion(target)}${more(target)}`)
    .join(", ");
}
