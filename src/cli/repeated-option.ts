// An option that may be given several times: citty keeps the last one.

import { parseArgs } from "node:util";
import type { ArgsDef } from "citty";

/** @param definitions of the command's arguments, so that others' values are not taken for options */
export function parseRepeatedOption(
  definitions: ArgsDef,
  rawArgs: readonly string[],
  name: string,
): string[] {
  const options = Object.fromEntries(
    Object.entries(definitions)
      .filter(([, { type }]) => type !== "positional")
      .map(([option, { type }]) => [
        option,
        {
          type: type === "boolean" ? ("boolean" as const) : ("string" as const),
          multiple: option === name,
        },
      ]),
  );
  const { values } = parseArgs({
    args: [...rawArgs],
    options,
    allowPositionals: true,
    allowNegative: true,
    strict: false,
  });
  return [values[name] ?? []].flat().filter((one) => typeof one === "string");
}
