// `edgetier model gc`: deletes unreferenced versions and artifacts from the store.

import { defineCommand } from "citty";
import { systemClock } from "../../core/clock.ts";
import { collectGarbage, type GarbageCollectionResult } from "../../registry/garbage-collection.ts";
import { cliErrors } from "../errors.ts";
import { formatBytes, jsonArg, printJson, printLine } from "../output.ts";
import { openObjectStore, storeArgs } from "../store-args.ts";

const NAME = "edgetier model gc";
const UNITS_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

export const command = defineCommand({
  meta: {
    name: "gc",
    description: "Delete artifacts that no version references and, with --keep, old versions",
  },
  args: {
    keep: {
      type: "string",
      valueHint: "n",
      description:
        "Number of newest versions to keep per model, in addition to those that an alias names or can roll back to; by default all",
    },
    "older-than": {
      type: "string",
      valueHint: "time",
      description:
        "Minimum age of deleted objects, such as 90m, 12h or 7d; below 2h, artifacts of a running publication may be deleted",
      default: "24h",
    },
    "dry-run": { type: "boolean", description: "List the deletions without deleting" },
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const isDryRun = args["dry-run"] === true;
    const garbage = await collectGarbage(openObjectStore(args), {
      keepVersions: parseKeep(args.keep),
      olderThanMs: parseAge(args["older-than"]),
      clock: systemClock,
      isDryRun,
    });
    if (args.json) return printJson({ ...garbage, isDryRun });
    printLine(summary(garbage, isDryRun));
  },
});

/** @throws usage */
function parseKeep(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9][0-9]{0,8}$/.test(text))
    throw cliErrors.usage(
      `--keep is ${JSON.stringify(text)}; expected a whole number from 1`,
      NAME,
    );
  return Number(text);
}

/** @throws usage */
function parseAge(text: string): number {
  const [, count, unit = ""] = /^([0-9]{1,6})([mhd])$/.exec(text) ?? [];
  const unitMs = UNITS_MS[unit];
  if (count === undefined || unitMs === undefined)
    throw cliErrors.usage(
      `--older-than is ${JSON.stringify(text)}; expected a time such as 90m, 12h or 7d`,
      NAME,
    );
  return Number(count) * unitMs;
}

function summary(
  { versions, artifacts, kept }: GarbageCollectionResult,
  isDryRun: boolean,
): string {
  const bytes = artifacts.reduce((sum, artifact) => sum + artifact.bytes, 0);
  const action = isDryRun ? "would delete" : "deleted";
  return [
    ...versions.map(({ model, version }) => `${action} ${model}@${version}`),
    `${action} ${versions.length} versions and ${artifacts.length} artifacts, ${formatBytes(bytes)}`,
    `${isDryRun ? "would keep" : "kept"} ${kept.versions} versions and ${kept.artifacts} artifacts, ${formatBytes(kept.bytes)}`,
  ].join("\n");
}
