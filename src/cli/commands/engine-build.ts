// `edgetier engine build`: cuts the engine to this deployment's models. wrangler runs it before every build.

import { cliErrors } from "../errors.ts";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { defineCommand } from "citty";
import { addKeepFunctions } from "../../toolchain/deployment-config.ts";
import { prepareEngine } from "../../toolchain/engine/prepare-engine.ts";
import type { EngineReport } from "../../toolchain/engine/engine-report.ts";
import { resolveFunctionIndices, parseTrapLog } from "../../toolchain/engine/trap-log.ts";
import { readProjects } from "../../toolchain/project.ts";
import { reasonOf } from "../../core/errors.ts";
import { buildProjectDeployment } from "../build-deployment.ts";
import { DEPLOYMENT_FOLDER, ENGINE_FOLDER, MODELS_FOLDER, PROJECT_ROOT } from "../local/paths.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";

export const command = defineCommand({
  meta: {
    name: "build",
    description: "Make the engine and the snapshots that the Worker bundles, unless they are there",
  },
  args: {
    models: {
      type: "string",
      valueHint: "folder",
      description: "Folder of the model projects",
      default: MODELS_FOLDER,
    },
    config: {
      type: "string",
      valueHint: "folder",
      description: "Folder of the package.json with the key `edgetier`",
      default: PROJECT_ROOT,
    },
    out: {
      type: "string",
      valueHint: "folder",
      description: "What the Worker bundles is written there",
      default: DEPLOYMENT_FOLDER,
    },
    traps: {
      type: "string",
      valueHint: "file",
      description:
        "Log of an isolate: functions that it missed are added to edgetier.keepFunctions in package.json",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const startedAtMs = performance.now();
    const log = args.json ? () => {} : printLine;
    if (args.traps !== undefined) await addTrappedFunctions(args.traps, args.config, log);
    const { report, cached } = await buildProjectDeployment(await readProjects(args.models, log), {
      configFolder: args.config,
      outFolder: args.out,
      log,
    });
    if (args.json)
      return printJson({
        ...report,
        cached,
        seconds: Math.round(performance.now() - startedAtMs) / 1000,
      });
    printLine(summary(report));
    if (!cached) printLine(`made in ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`);
  },
});

function summary({ engine, full, graphs, validation, fallback }: EngineReport): string {
  const size = (one: { readonly bytes: number; readonly gzipBytes: number }) => [
    formatBytes(one.bytes),
    `${formatBytes(one.gzipBytes)} gzip`,
  ];
  const rows = [
    ["full engine", ...size(full), full.sha256.slice(0, 12)],
    engine.kind === "cut"
      ? [
          "cut engine",
          ...size(engine),
          engine.sha256.slice(0, 12),
          `${engine.functionCount} functions`,
        ]
      : ["not cut", engine.reason],
    ...graphs.map(({ model, tier, snapshot, bundled, reason }) => [
      `${model}/${tier}`,
      ...(snapshot === null
        ? [reason ?? ""]
        : [
            ...size(snapshot),
            bundled ? "bundled" : "in the store",
            `${formatBytes(snapshot.memoryBytes)} of memory`,
          ]),
    ]),
    ...validation.map(({ graph, inputs, different }) => [
      `validated ${graph}`,
      `${inputs - different} of ${inputs} inputs as the full engine`,
    ]),
  ];
  return `${renderTable(rows)}${fallback ? "\nthe full engine is bundled as well: a model has no region tier" : ""}`;
}

/** @throws usage where the log cannot be read */
async function addTrappedFunctions(
  path: string,
  configFolder: string,
  log: (line: string) => void,
): Promise<void> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw cliErrors.usage(
      `--traps ${path} cannot be read: ${reasonOf(error)}`,
      "edgetier engine build",
    );
  });
  const { sha256 } = await prepareEngine({ outDir: ENGINE_FOLDER, log });
  const { calledFunctions: cut, otherEngineCount: ofOtherEngines } = parseTrapLog(text, sha256);
  const functions = await resolveFunctionIndices(cut, join(ENGINE_FOLDER, "engine.wasm"));
  await addKeepFunctions(configFolder, functions);
  log(
    `${path}: ${functions.length === 0 ? "no function was missed" : `functions ${functions.join(", ")} are kept from now on (package.json, edgetier.keepFunctions)`}`,
  );
  if (ofOtherEngines > 0) log(`${path}: ${ofOtherEngines} lines are about other engines`);
}
