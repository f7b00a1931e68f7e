// `edgetier engine publish`: notes in the model store which engine is deployed. Run it after `wrangler deploy`.

import { defineCommand } from "citty";
import { readProjects } from "../../toolchain/project.ts";
import { buildProjectDeployment, deployedEngineOf } from "../build-deployment.ts";
import { MODELS_FOLDER } from "../local/paths.ts";
import { jsonArg, printJson, printLine } from "../output.ts";
import { openModelStore, storeArgs } from "../store-args.ts";

export const command = defineCommand({
  meta: {
    name: "publish",
    description: "Note in the model store which engine is deployed, so that `model publish` knows",
  },
  args: { ...storeArgs, ...jsonArg },
  async run({ args }) {
    const built = await buildProjectDeployment(
      await readProjects(MODELS_FOLDER, args.json ? undefined : printLine),
      args.json ? {} : { log: printLine },
    );
    const engine = deployedEngineOf(built);
    await openModelStore(args).writeDeployedEngine(engine);
    if (args.json) printJson(engine);
    else
      printLine(
        `the store knows: the ${engine.kind} engine of ${engine.source.slice(0, 12)} is deployed`,
      );
  },
});
