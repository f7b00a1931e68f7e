// `edgetier region key`: a secret that edges sign their requests to a region with.

import { cliErrors } from "../errors.ts";
import { defineCommand } from "citty";
import { regionKeySchema, generateRegionKey, formatRegionKey } from "../../region/region-keys.ts";
import { jsonArg, printJson, printLine } from "../output.ts";

export const command = defineCommand({
  meta: {
    name: "key",
    description: "Make a secret that an edge signs its requests to a region with",
  },
  args: {
    id: {
      type: "string",
      valueHint: "name",
      description: "What both sides call it; by default the day",
      default: "",
    },
    ...jsonArg,
  },
  run({ args }) {
    const id = args.id === "" ? new Date().toISOString().slice(0, 10) : args.id;
    const key = formatRegionKey(generateRegionKey(id));
    if (!regionKeySchema().safeParse(key).success)
      throw cliErrors.usage(
        `${JSON.stringify(id)} is not an id: letters, digits, '.', '_' and '-', at most 64`,
        "edgetier region key",
      );
    if (args.json === true) return printJson({ keyId: id, key });
    printLine(key);
    printLine(
      "\nIt is a secret. A region may name several, with commas between them, while one replaces another.",
    );
  },
});
