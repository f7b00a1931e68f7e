// `edgetier engine build`: strips the engine to the functions this deployment's models call. wrangler runs it before every build.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { defineCommand } from "citty";
import { reasonOf } from "../../core/errors.ts";
import { addKeepFunctions } from "../../toolchain/deployment-config.ts";
import type { EngineReport } from "../../toolchain/engine/engine-report.ts";
import { prepareEngine } from "../../toolchain/engine/prepare-engine.ts";
import { resolveFunctionIndices, parseTrapLog } from "../../toolchain/engine/trap-log.ts";
import { readProjects } from "../../toolchain/project.ts";
import { buildProjectDeployment } from "../build-deployment.ts";
import { cliErrors } from "../errors.ts";
import { DEPLOYMENT_FOLDER, ENGINE_FOLDER, MODELS_FOLDER, PROJECT_ROOT } from "../local/paths.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";

export const command = defineCommand({
  meta: {
    name: "build",
    description:
      "Build the engine and the snapshots that the Worker bundles, unless they are up to date",
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
      description: "Output folder, which the Worker bundles",
      default: DEPLOYMENT_FOLDER,
    },
    traps: {
      type: "string",
      valueHint: "file",
      description:
        "Log of an isolate; functions missing from its engine are added to edgetier.keepFunctions in package.json",
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
    if (!cached) printLine(`built in ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`);
  },
});

function summary({ engine, full, graphs, validation, fallback }: EngineReport): string {
  const sizeCells = ({
    bytes,
    gzipBytes,
  }: {
    readonly bytes: number;
    readonly gzipBytes: number;
  }) => [formatBytes(bytes), `${formatBytes(gzipBytes)} gzip`];
  const rows = [
    ["full engine", ...sizeCells(full), full.sha256.slice(0, 12)],
    engine.kind === "cut"
      ? [
          "stripped engine",
          ...sizeCells(engine),
          engine.sha256.slice(0, 12),
          `${engine.functionCount} functions`,
        ]
      : ["not stripped", engine.reason],
    ...graphs.map(({ model, tier, snapshot, bundled, reason }) => [
      `${model}/${tier}`,
      ...(snapshot === null
        ? [reason ?? ""]
        : [
            ...sizeCells(snapshot),
            bundled ? "bundled" : "in the model store",
            `${formatBytes(snapshot.memoryBytes)} of memory`,
          ]),
    ]),
    ...validation.map(({ graph, inputs, different }) => [
      `validated ${graph}`,
      `${inputs - different} of ${inputs} inputs match the full engine`,
    ]),
  ];
  return `${renderTable(rows)}${fallback ? "\nThe full engine is also bundled, because a model has no region tier." : ""}`;
}

/** Adds the functions that a trap log reports as missing to package.json. @throws usage if the log cannot be read */
async function addTrappedFunctions(
  path: string,
  configFolder: string,
  log: (line: string) => void,
): Promise<void> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw cliErrors.usage(
      `Cannot read --traps ${path}: ${reasonOf(error)}`,
      "edgetier engine build",
    );
  });
  const { sha256 } = await prepareEngine({ outDir: ENGINE_FOLDER, log });
  const { calledFunctions, otherEngineCount } = parseTrapLog(text, sha256);
  const functions = await resolveFunctionIndices(
    calledFunctions,
    join(ENGINE_FOLDER, "engine.wasm"),
  );
  await addKeepFunctions(configFolder, functions);
  log(
    `${path}: ${functions.length === 0 ? "no function was missing" : `functions ${functions.join(", ")} were added to edgetier.keepFunctions in package.json`}`,
  );
  if (otherEngineCount > 0) log(`${path}: ${otherEngineCount} lines concern other engines`);
}
