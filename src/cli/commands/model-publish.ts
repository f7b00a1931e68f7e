// `edgetier model publish <folder>`: a model project becomes a version in the store.

import { defineCommand } from "citty";
import { readProject } from "../../build/project.ts";
import { errors } from "../../core/errors.ts";
import { aliasName } from "../../registry/manifest.ts";
import { DEFAULT_ALIAS } from "../../registry/model-ref.ts";
import { publishModel } from "../../registry/publish.ts";
import { inKiB, jsonArg, printJson, printLine } from "../output.ts";
import { openStore, storeArgs } from "../store-options.ts";

export const command = defineCommand({
  meta: { name: "publish", description: "Publish a model project; the same content again changes nothing" },
  args: {
    folder: { type: "positional", description: "Folder with the model.json, for example models/intent", required: true },
    alias: { type: "string", valueHint: "name", description: "Alias to move to the version", default: DEFAULT_ALIAS },
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const alias = aliasName.safeParse(args.alias);
    if (!alias.success) throw errors.usage(`--alias ${args.alias} ${alias.error.issues[0]?.message ?? "is not an alias"}`, "edgetier model publish");
    const source = await readProject(args.folder);
    const result = await publishModel(openStore(args), source, {
      alias: alias.data,
      onProgress(event) {
        if (args.json || event.step !== "artifact") return;
        printLine(`${event.created ? "uploaded" : "in store"}  ${event.path}  ${inKiB(event.ref.size)}  ${event.ref.sha256.slice(0, 12)}`);
      },
    });
    if (args.json) return printJson(result);
    const { model, version, outcome, aliasMoved, aliasVersion } = result;
    printLine(outcome === "published" ? `published ${model}@${version}` : `unchanged: ${model}@${version} has this content already`);
    printLine(`${model}@${alias.data} ${aliasMoved ? "is now" : "stays"} version ${aliasVersion}`);
  },
});
