// `edgetier model gc`: deletes from the store what nothing refers to any more.

import { cliErrors } from "../errors.ts";
import { defineCommand } from "citty";
import { systemClock } from "../../core/clock.ts";
import { collectGarbage, type GarbageCollectionResult } from "../../registry/garbage-collection.ts";
import { formatBytes, jsonArg, printJson, printLine } from "../output.ts";
import { openObjectStore, storeArgs } from "../store-args.ts";

const NAME = "edgetier model gc";
const UNITS_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

export const command = defineCommand({
  meta: {
    name: "gc",
    description:
      "Delete artifacts that no version names and, with --keep, versions that nobody needs any more",
  },
  args: {
    keep: {
      type: "string",
      valueHint: "n",
      description:
        "Versions of each model to keep, the newest ones, besides those that an alias names or can roll back to; all without it",
    },
    "older-than": {
      type: "string",
      valueHint: "time",
      description:
        "Keep what was written later, such as 90m, 12h, 7d; what is less than 2h may take away from a publisher what he is about to name",
      default: "24h",
    },
    "dry-run": { type: "boolean", description: "Only tell what would be deleted" },
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
    throw cliErrors.usage(`--keep ${text} is not a whole number from 1`, NAME);
  return Number(text);
}

/** @throws usage */
function parseAge(text: string): number {
  const [, count, unit = ""] = /^([0-9]{1,6})([mhd])$/.exec(text) ?? [];
  const unitMs = UNITS_MS[unit];
  if (count === undefined || unitMs === undefined)
    throw cliErrors.usage(`--older-than ${text} is not a time such as 90m, 12h or 7d`, NAME);
  return Number(count) * unitMs;
}

function summary(
  { versions, artifacts, kept }: GarbageCollectionResult,
  isDryRun: boolean,
): string {
  const bytes = artifacts.reduce((sum, one) => sum + one.bytes, 0);
  const did = isDryRun ? "would delete" : "deleted";
  return [
    ...versions.map(({ model, version }) => `${did} ${model}@${version}`),
    `${did} ${versions.length} versions and ${artifacts.length} artifacts, ${formatBytes(bytes)}`,
    `${isDryRun ? "would keep" : "kept"} ${kept.versions} versions and ${kept.artifacts} artifacts, ${formatBytes(kept.bytes)}`,
  ].join("\n");
}
