// `edgetier engine prepare`: builds only the full engine, which `engine build` strips.

import { defineCommand } from "citty";
import { prepareEngine } from "../../toolchain/engine/prepare-engine.ts";
import { ENGINE_FOLDER } from "../local/paths.ts";
import { formatBytes, jsonArg, printJson, printLine } from "../output.ts";

export const command = defineCommand({
  meta: {
    name: "prepare",
    description: "Build the full WebAssembly engine from onnxruntime-web, unless it is up to date",
  },
  args: { ...jsonArg },
  async run({ args }) {
    const engine = await prepareEngine({
      outDir: ENGINE_FOLDER,
      ...(args.json ? {} : { log: printLine }),
    });
    if (args.json) printJson(engine);
    else
      printLine(
        `engine ${engine.cached ? "is up to date" : "built"}: ${formatBytes(engine.bytes)}, SHA-256 ${engine.sha256.slice(0, 12)}`,
      );
  },
});
