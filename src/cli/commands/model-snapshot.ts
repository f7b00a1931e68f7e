// `edgetier model snapshot <folder>`: creates the memory snapshots that a project's edge tiers start from, in workerd.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { defineCommand } from "citty";
import { decodeFunctionSet } from "../../runtime/wasm/function-set.ts";
import { readProject } from "../../toolchain/project.ts";
import { createProjectSnapshots } from "../build-deployment.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";

export const command = defineCommand({
  meta: {
    name: "snapshot",
    description:
      "Create the snapshots of a project's edge tiers; `model publish` includes this step",
  },
  args: {
    folder: {
      type: "positional",
      description: "Folder with the model.json, for example models/intent",
      required: true,
    },
    out: {
      type: "string",
      valueHint: "folder",
      description: "Output folder for copies, named <tier>.etsnap",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const { source, skippedTiers } = await createProjectSnapshots(
      await readProject(args.folder),
      args.json ? () => {} : printLine,
    );
    const snapshots = [...(source.snapshots ?? [])];
    if (args.out !== undefined) {
      await mkdir(args.out, { recursive: true });
      for (const [tier, { bytes }] of snapshots)
        await writeFile(join(args.out, `${tier}.etsnap`), bytes);
    }
    const rows = snapshots.map(([tier, { bytes, engine, functions, memoryBytes }]) => ({
      tier,
      bytes: bytes.byteLength,
      memoryBytes,
      engine,
      functions: decodeFunctionSet(functions).size,
    }));
    if (args.json)
      return printJson({ model: source.project.model, snapshots: rows, without: skippedTiers });
    const header = ["tier", "file", "memory", "functions", "engine"];
    if (rows.length > 0)
      printLine(
        renderTable([
          header,
          ...rows.map((row) => [
            row.tier,
            formatBytes(row.bytes),
            formatBytes(row.memoryBytes),
            row.functions,
            row.engine.slice(0, 12),
          ]),
        ]),
      );
    for (const { tier, reason } of skippedTiers) printLine(`${tier}: no snapshot. ${reason}`);
    if (rows.length + skippedTiers.length === 0)
      printLine(`${source.project.model} has no edge tier`);
  },
});
