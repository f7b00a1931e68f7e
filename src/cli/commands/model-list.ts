// `edgetier model list`: lists the models in the store with their versions and aliases.

import { defineCommand } from "citty";
import { previousVersionsOf, weightOf } from "../../registry/aliases.ts";
import { aliasedVersion, type Aliases, type AliasTarget } from "../../registry/manifest.ts";
import { jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { openModelStore, storeArgs } from "../store-args.ts";

export const command = defineCommand({
  meta: { name: "list", description: "List the models in the store" },
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
      return printLine("The store has no models. Add one with `edgetier model publish <folder>`.");
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
  const formatFacts = (target: AliasTarget) => {
    const [previous] = previousVersionsOf(target);
    const facts = [
      ...(weightOf(target) === undefined ? [] : [`weight ${weightOf(target)}`]),
      ...(previous === undefined ? [] : [`previously ${previous}`]),
    ];
    return facts.length === 0 ? "" : ` (${facts.join(", ")})`;
  };
  return Object.entries(aliases)
    .map(([name, target]) => `${name}=${aliasedVersion(target)}${formatFacts(target)}`)
    .join(", ");
}
