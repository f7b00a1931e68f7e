// Repeated options: reads every value of an option. citty keeps only the last one.

import { parseArgs } from "node:util";
import type { ArgsDef } from "citty";

/**
 * Returns the values of the option `name` in order.
 * @param definitions all arguments of the command; without them, values of other options would be read as options
 */
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
  return [values[name] ?? []].flat().filter((value) => typeof value === "string");
}
