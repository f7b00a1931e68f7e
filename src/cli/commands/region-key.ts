// `edgetier region key`: creates a secret for signing an edge's requests to a region.

import { defineCommand } from "citty";
import { regionKeySchema, generateRegionKey, formatRegionKey } from "../../region/region-keys.ts";
import { cliErrors } from "../errors.ts";
import { jsonArg, printJson, printLine } from "../output.ts";

export const command = defineCommand({
  meta: {
    name: "key",
    description: "Create a secret for signing an edge's requests to a region",
  },
  args: {
    id: {
      type: "string",
      valueHint: "name",
      description: "Id of the key on both sides; by default today's date",
      default: "",
    },
    ...jsonArg,
  },
  run({ args }) {
    const id = args.id === "" ? new Date().toISOString().slice(0, 10) : args.id;
    const key = formatRegionKey(generateRegionKey(id));
    if (!regionKeySchema().safeParse(key).success)
      throw cliErrors.usage(
        `--id is ${JSON.stringify(id)}; expected at most 64 letters, digits, '.', '_' and '-'`,
        "edgetier region key",
      );
    if (args.json === true) return printJson({ keyId: id, key });
    printLine(key);
    printLine(
      "\nKeep it secret. During a rotation, a region accepts several comma-separated keys.",
    );
  },
});
