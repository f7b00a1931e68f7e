// `edgetier model publish <folder>`: publishes a model project as a version in the store.

import { defineCommand } from "citty";
import type { ModelStore } from "../../registry/model-store.ts";
import { publishModel, type PublishSource } from "../../registry/publish.ts";
import { findIncompatibility } from "../../runtime/wasm/snapshot-compatibility.ts";
import { readProject } from "../../toolchain/project.ts";
import { aliasArg, readAliasName } from "../alias-args.ts";
import { createProjectSnapshots } from "../build-deployment.ts";
import { purgeMovedAlias, purgeArgs, parsePurgeOptions } from "../cdn-purge.ts";
import { formatBytes, jsonArg, printJson, printLine, createProgressPrinter } from "../output.ts";
import { collectProvenance } from "../provenance.ts";
import { readSigningKeys, signingArgs } from "../signing-args.ts";
import { openPublishingStore, storeArgs } from "../store-args.ts";

const NAME = "edgetier model publish";

export const command = defineCommand({
  meta: {
    name: "publish",
    description:
      "Publish a model project as a version; publishing the same content again changes nothing",
  },
  args: {
    folder: {
      type: "positional",
      description: "Folder with the model.json, for example models/intent",
      required: true,
    },
    ...aliasArg,
    snapshots: {
      type: "boolean",
      description:
        "Create snapshots of edge tiers; without them, the edge initializes sessions itself",
      default: true,
      negativeDescription: "Skip the snapshots",
    },
    ...purgeArgs,
    ...signingArgs,
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const alias = readAliasName(args.alias, NAME);
    const purge = parsePurgeOptions(args, NAME);
    const signingKeys = await readSigningKeys(args["sign-key"], NAME);
    const store = openPublishingStore(args, signingKeys);
    const log = args.json ? () => {} : printLine;
    const { source, skippedTiers } = args.snapshots
      ? await createProjectSnapshots(await readProject(args.folder), log)
      : { source: await readProject(args.folder), skippedTiers: [] };
    const unsupported = await findUnsupportedEdgeTiers(store, source);
    for (const { tier, reason } of skippedTiers) log(`${tier}: no snapshot. ${reason}`);
    for (const { tier, reason } of unsupported)
      log(
        `${tier}: the deployed engine does not support this tier, so the next tier answers: ${reason}.\n  Run \`edgetier engine build\`, deploy, and \`edgetier engine publish\`.`,
      );
    const result = await publishModel(store, source, {
      alias,
      publishing: await collectProvenance(
        args.folder,
        `${NAME} ${source.project.model} --alias ${alias}${args.snapshots ? "" : " --no-snapshots"}`,
      ),
      onProgress(event) {
        if (args.json || event.kind !== "artifact") return;
        printLine(
          `${event.created ? "uploaded" : "in store"}  ${event.path}  ${formatBytes(event.ref.size)}  ${event.ref.sha256.slice(0, 12)}`,
        );
      },
    });
    const signedBy = signingKeys.map(({ id }) => id);
    const { model, version, outcome, aliasMoved, aliasVersion } = result;
    if (args.json)
      printJson({ ...result, signedBy, withoutSnapshot: skippedTiers, notAtTheEdge: unsupported });
    else {
      printLine(
        outcome === "published"
          ? `published ${model}@${version}${signedBy.length === 0 ? "" : `, signed by ${signedBy.join(", ")}`}`
          : `unchanged: ${model}@${version} already has this content`,
      );
      printLine(`${model}@${alias} ${aliasMoved ? "is now" : "stays"} version ${aliasVersion}`);
    }
    if (purge !== undefined && aliasMoved)
      await purgeMovedAlias(
        { model, alias, version: aliasVersion },
        purge,
        createProgressPrinter(args.json === true),
      );
  },
});

/** Finds edge tiers that the deployed engine cannot start. Finds none if the store records no deployment. */
async function findUnsupportedEdgeTiers(
  store: ModelStore,
  { project, snapshots }: PublishSource,
): Promise<{ tier: string; reason: string }[]> {
  const engine = await store.readDeployedEngine();
  if (engine === undefined || engine.kind === "full") return []; // a full engine supports every model
  return project.tiers.flatMap(({ id, place }) => {
    const reason = place === "edge" ? findIncompatibility(snapshots?.get(id), engine) : undefined;
    return reason === undefined ? [] : [{ tier: id, reason }];
  });
}
