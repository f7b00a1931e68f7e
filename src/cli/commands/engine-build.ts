// `edgetier engine build`: cuts the engine to this deployment's models. wrangler runs it before every build.

import { readFile } from "node:fs/promises";
import { defineCommand } from "citty";
import { z } from "zod";
import type { EngineReport } from "../../build/engine/report.ts";
import { readProjects } from "../../build/project.ts";
import { errors, reasonOf } from "../../core/errors.ts";
import type { CutFunction } from "../../runtime/wasm/traps.ts";
import { buildProjectDeployment } from "../deployment.ts";
import { MODELS_FOLDER } from "../local/paths.ts";
import { inKiB, jsonArg, printJson, printLine, table } from "../output.ts";

export const command = defineCommand({
  meta: { name: "build", description: "Make the engine and the snapshots that the Worker bundles, unless they are there" },
  args: {
    models: { type: "string", valueHint: "folder", description: "Folder of the model projects", default: MODELS_FOLDER },
    traps: { type: "string", valueHint: "file", description: "Log of an isolate, JSON lines: functions that were missed there are kept" },
    ...jsonArg,
  },
  async run({ args }) {
    const startedAtMs = performance.now();
    const { report, cached } = await buildProjectDeployment(await readProjects(args.models), {
      ...(args.traps === undefined ? {} : { trapped: await readTraps(args.traps) }),
      ...(args.json ? {} : { log: printLine }),
    });
    if (args.json) return printJson({ ...report, cached, seconds: Math.round(performance.now() - startedAtMs) / 1000 });
    printLine(summary(report));
    if (!cached) printLine(`made in ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`);
  },
});

function summary({ engine, full, graphs, validation, fallback }: EngineReport): string {
  const size = (one: { readonly bytes: number; readonly gzipBytes: number }) => [inKiB(one.bytes), `${inKiB(one.gzipBytes)} gzip`];
  const rows = [
    ["full engine", ...size(full), full.sha256.slice(0, 12)],
    engine.kind === "cut" ? ["cut engine", ...size(engine), engine.sha256.slice(0, 12), `${engine.functionCount} functions`] : ["not cut", engine.reason],
    ...graphs.map(({ model, tier, snapshot, bundled, reason }) => [`${model}/${tier}`, ...(snapshot === null ? [reason ?? ""] : [...size(snapshot), bundled ? "bundled" : "in the store", `${inKiB(snapshot.memoryBytes)} of memory`])]),
    ...validation.map(({ graph, inputs, different }) => [`validated ${graph}`, `${inputs - different} of ${inputs} inputs as the full engine`]),
  ];
  return `${table(rows)}${fallback ? "\nthe full engine is bundled as well: a model has no region tier" : ""}`;
}

/** As `traps` of the Worker's log: other lines are none of our business. */
const trapSchema = z.object({ event: z.literal("engine_trap"), function: z.int().optional(), slot: z.int().optional() });

/** @throws usage */
async function readTraps(path: string): Promise<CutFunction[]> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    throw errors.usage(`--traps ${path} cannot be read: ${reasonOf(error)}`, "edgetier engine build");
  }
  return text.split("\n").flatMap((line): CutFunction[] => {
    const json = line.slice(Math.max(line.indexOf("{"), 0)); // lines may begin with a time or a name
    try {
      const { function: index, slot } = trapSchema.parse(JSON.parse(json));
      return index !== undefined ? [{ function: index }] : slot !== undefined ? [{ slot }] : [];
    } catch {
      return [];
    }
  });
}
