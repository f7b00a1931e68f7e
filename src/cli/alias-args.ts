// Alias arguments: the option and the output that all commands share that move an alias.

import type { AliasChange, AliasState } from "../registry/aliases.ts";
import { aliasNameSchema } from "../registry/manifest.ts";
import { DEFAULT_ALIAS } from "../registry/model-ref.ts";
import { cliErrors } from "./errors.ts";
import { printJson, printLine } from "./output.ts";

export const aliasArg = {
  alias: {
    type: "string",
    valueHint: "name",
    description: "Alias to move",
    default: DEFAULT_ALIAS,
  },
} as const;

/** @throws usage */
export function readAliasName(text: string, command: string): string {
  const alias = aliasNameSchema.safeParse(text);
  if (!alias.success)
    throw cliErrors.usage(
      `--alias ${text} ${alias.error.issues[0]?.message ?? "is not an alias"}`,
      command,
    );
  return alias.data;
}

export function printAliasMove(move: AliasChange, json: boolean): void {
  if (json) return printJson(move);
  const { model, alias, before, after } = move;
  printLine(
    `${model}@${alias}: ${before === null ? "none" : formatAliasState(before)} -> ${formatAliasState(after)}`,
  );
}

const formatAliasState = ({ version, weight }: AliasState): string =>
  `version ${version}${weight === null ? "" : `, weight ${weight}`}`;
