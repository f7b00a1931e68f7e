// The options of commands that read samples, and numbers as options give them.
import { cliErrors } from "../errors.ts";

export const samplesArgs = {
  samples: {
    type: "string",
    valueHint: "path",
    description:
      'Labelled samples: a file with one {"text", "label"} or {"file", "label"} a line, or a folder <label>/<file>',
    required: true,
  },
  limit: {
    type: "string",
    valueHint: "n",
    description: "At most so many samples, chosen with a fixed seed",
  },
} as const;

/** @throws usage unless it is a whole number from 1 to `most` */
export function parseCount(option: string, value: string, command: string, most?: number): number;
export function parseCount(
  option: string,
  value: string | undefined,
  command: string,
  most?: number,
): number | undefined;
export function parseCount(
  option: string,
  value: string | undefined,
  command: string,
  most = Number.MAX_SAFE_INTEGER,
): number | undefined {
  if (value === undefined) return undefined;
  const count = /^[0-9]+$/.test(value) ? Number(value) : 0;
  if (count >= 1 && count <= most) return count;
  throw cliErrors.usage(
    `${option} is ${JSON.stringify(value)}, and must be a whole number from 1 ${most === Number.MAX_SAFE_INTEGER ? "on" : `to ${most}`}`,
    command,
  );
}
