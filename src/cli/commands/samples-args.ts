// Sample arguments: options of commands that read samples, and parsing of counts.
import { cliErrors } from "../errors.ts";

export const samplesArgs = {
  samples: {
    type: "string",
    valueHint: "path",
    description:
      'Labeled samples: a file with one {"text", "label"} or {"file", "label"} per line, or a folder <label>/<file>',
    required: true,
  },
  limit: {
    type: "string",
    valueHint: "n",
    description: "Maximum number of samples, chosen with a fixed seed",
  },
} as const;

/** Parses a whole number from 1 to `max`. @throws usage */
export function parseCount(option: string, value: string, command: string, max?: number): number;
export function parseCount(
  option: string,
  value: string | undefined,
  command: string,
  max?: number,
): number | undefined;
export function parseCount(
  option: string,
  value: string | undefined,
  command: string,
  max = Number.MAX_SAFE_INTEGER,
): number | undefined {
  if (value === undefined) return undefined;
  const count = /^[0-9]+$/.test(value) ? Number(value) : 0;
  if (count >= 1 && count <= max) return count;
  throw cliErrors.usage(
    `${option} is ${JSON.stringify(value)}; expected a whole number ${max === Number.MAX_SAFE_INTEGER ? "of at least 1" : `from 1 to ${max}`}`,
    command,
  );
}
