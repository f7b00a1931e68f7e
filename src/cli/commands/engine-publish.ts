// `edgetier engine publish`: records the deployed engine in the model store. Run it after `wrangler deploy`.

import { defineCommand } from "citty";
import { readProjects } from "../../toolchain/project.ts";
import { buildProjectDeployment, deployedEngineOf } from "../build-deployment.ts";
import { MODELS_FOLDER } from "../local/paths.ts";
import { jsonArg, printJson, printLine } from "../output.ts";
import { openModelStore, storeArgs } from "../store-args.ts";

export const command = defineCommand({
  meta: {
    name: "publish",
    description: "Record the deployed engine in the model store, for the checks of `model publish`",
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
        `recorded in the model store: the ${engine.kind} engine of ${engine.source.slice(0, 12)} is deployed`,
      );
  },
});
