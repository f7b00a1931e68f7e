// `edgetier model publish <folder>`: a model project becomes a version in the store.

import { defineCommand } from "citty";
import { readProject } from "../../build/project.ts";
import { errors } from "../../core/errors.ts";
import { aliasName } from "../../registry/manifest.ts";
import { DEFAULT_ALIAS } from "../../registry/model-ref.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import { publishModel, type PublishSource } from "../../registry/publish.ts";
import { reasonAgainst } from "../../runtime/wasm/snapshot-fit.ts";
import { makeProjectSnapshots } from "../deployment.ts";
import { inKiB, jsonArg, printJson, printLine } from "../output.ts";
import { openStore, storeArgs } from "../store-options.ts";

export const command = defineCommand({
  meta: { name: "publish", description: "Publish a model project; the same content again changes nothing" },
  args: {
    folder: { type: "positional", description: "Folder with the model.json, for example models/intent", required: true },
    alias: { type: "string", valueHint: "name", description: "Alias to move to the version", default: DEFAULT_ALIAS },
    snapshots: { type: "boolean", description: "Make the snapshots of edge tiers; without them the edge opens models itself", default: true, negativeDescription: "Leave the snapshots out" },
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const alias = aliasName.safeParse(args.alias);
    if (!alias.success) throw errors.usage(`--alias ${args.alias} ${alias.error.issues[0]?.message ?? "is not an alias"}`, "edgetier model publish");
    const store = openStore(args);
    const log = args.json ? () => {} : printLine;
    const { source, without } = args.snapshots ? await makeProjectSnapshots(await readProject(args.folder), log) : { source: await readProject(args.folder), without: [] };
    const notAtTheEdge = await tiersNotAtTheEdge(store, source);
    for (const { tier, reason } of without) log(`${tier}: no snapshot. ${reason}`);
    for (const { tier, reason } of notAtTheEdge) log(`${tier}: the edge cannot serve it, the next tier answers instead: ${reason}.\n  Run \`edgetier engine build\`, deploy, and \`edgetier engine publish\`.`);
    const result = await publishModel(store, source, {
      alias: alias.data,
      onProgress(event) {
        if (args.json || event.step !== "artifact") return;
        printLine(`${event.created ? "uploaded" : "in store"}  ${event.path}  ${inKiB(event.ref.size)}  ${event.ref.sha256.slice(0, 12)}`);
      },
    });
    if (args.json) return printJson({ ...result, withoutSnapshot: without, notAtTheEdge });
    const { model, version, outcome, aliasMoved, aliasVersion } = result;
    printLine(outcome === "published" ? `published ${model}@${version}` : `unchanged: ${model}@${version} has this content already`);
    printLine(`${model}@${alias.data} ${aliasMoved ? "is now" : "stays"} version ${aliasVersion}`);
  },
});

/** Edge tiers that the deployed engine cannot start, and why; none where the store knows of no deployment. */
async function tiersNotAtTheEdge(store: ModelStore, { project, snapshots }: PublishSource): Promise<{ tier: string; reason: string }[]> {
  const engine = await store.readDeployedEngine();
  if (engine === undefined || engine.kind === "full") return []; // a full engine opens any model
  return project.tiers.flatMap(({ id, place }) => {
    const reason = place === "edge" ? reasonAgainst(snapshots?.get(id), engine) : undefined;
    return reason === undefined ? [] : [{ tier: id, reason }];
  });
}
