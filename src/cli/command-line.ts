// Runs a tree of citty commands with what citty leaves open: unknown options are refused, and exit codes tell usage
// errors (2) from failures (1).

import { cliErrors } from "./errors.ts";
import { parseArgs, stripVTControlCharacters } from "node:util";
import { type ArgsDef, type CommandDef, parseArgs as parseOptions, runCommand } from "citty";
import { EdgeTierError, reasonOf } from "../core/errors.ts";
import { renderCommandHelp, renderGroupHelp } from "./help.ts";
import { renderNextStep } from "./command-guides.ts";
import { printError, createProgressPrinter } from "./output.ts";

export const EXIT_CODES = { ok: 0, failed: 1, usage: 2 } as const;

interface ResolvedCommand {
  readonly command: CommandDef;
  /** As the user calls it, for example `edgetier model publish`. */
  readonly name: string;
  readonly args: readonly string[];
  readonly problem?: string;
}

/** @returns the exit code; errors have been printed. */
export async function runCommandLine(root: CommandDef, argv: readonly string[]): Promise<number> {
  const json = argv.includes("--json");
  const { command, name, args: rest, problem } = await resolveCommand(root, argv);
  if (problem === undefined && isHelpRequested(rest)) {
    print(await renderHelp(command, name));
    return EXIT_CODES.ok;
  }
  const wrong = problem ?? findUsageProblem(await resolveArgs(command), rest);
  if (wrong !== undefined) {
    printError(cliErrors.usage(wrong, name), json);
    return EXIT_CODES.usage;
  }
  try {
    await runCommand(command, { rawArgs: [...rest] });
    const next = renderNextStep(name, parseOptions([...rest], await resolveArgs(command)));
    if (next !== undefined) createProgressPrinter(json)(next);
    return EXIT_CODES.ok;
  } catch (error) {
    const missing = error instanceof Error && error.name === "CLIError"; // citty's own
    const shown = missing
      ? cliErrors.usage(stripVTControlCharacters(reasonOf(error)), name)
      : error;
    printError(shown, json);
    return shown instanceof EdgeTierError && shown.code === "usage"
      ? EXIT_CODES.usage
      : EXIT_CODES.failed;
  }
}

/** Follows the names of sub-commands as far as they go. */
async function resolveCommand(root: CommandDef, argv: readonly string[]): Promise<ResolvedCommand> {
  let command = root;
  let name = "edgetier";
  for (let index = 0; ; index++) {
    const children = await resolveValue(command.subCommands);
    const rest = argv.slice(index);
    if (children === undefined) return { command, name, args: rest };
    const [word] = rest;
    if (word === undefined || word.startsWith("-")) {
      return {
        command,
        name,
        args: rest,
        ...(isHelpRequested(rest)
          ? {}
          : { problem: `Say which command: ${Object.keys(children).join(", ")}` }),
      };
    }
    const child = Object.hasOwn(children, word) ? await resolveValue(children[word]) : undefined;
    if (child === undefined)
      return { command, name, args: rest, problem: `There is no command ${JSON.stringify(word)}` };
    command = child;
    name += ` ${word}`;
  }
}

const isHelpRequested = (args: readonly string[]): boolean =>
  args.slice(0, findEndOfOptions(args)).some((one) => one === "--help" || one === "-h");

function findEndOfOptions(args: readonly string[]): number {
  const end = args.indexOf("--");
  return end < 0 ? args.length : end;
}

/** What Node's strict parser objects to: unknown options, missing or superfluous values; and too many arguments. */
function findUsageProblem(definitions: ArgsDef, args: readonly string[]): string | undefined {
  const named = Object.entries(definitions).filter(
    ([, definition]) => definition.type !== "positional",
  );
  const options = Object.fromEntries(
    named.map(([name, definition]) => [
      name,
      {
        type: definition.type === "boolean" ? ("boolean" as const) : ("string" as const),
        ...shortNameOf(definition),
      },
    ]),
  );
  try {
    const { positionals } = parseArgs({
      args: [...args],
      options,
      allowPositionals: true,
      allowNegative: true,
      strict: true,
    });
    const expected = Object.keys(definitions).length - named.length;
    return positionals.length > expected
      ? `There is no place for ${JSON.stringify(positionals[expected])}`
      : undefined;
  } catch (error) {
    return reasonOf(error)
      .split(/\.? To specify a positional/)[0]
      ?.replace(/\.$/, "");
  }
}

/** A second name of one letter, as in `-o`. */
function shortNameOf(definition: ArgsDef[string]): { short?: string } {
  const names = "alias" in definition ? [definition.alias].flat() : [];
  const short = names.find((name) => name?.length === 1);
  return short === undefined ? {} : { short };
}

async function renderHelp(command: CommandDef, name: string): Promise<string> {
  const children = await resolveValue(command.subCommands);
  if (children !== undefined) return renderGroupHelp(name, Object.keys(children));
  return await renderCommandHelp(
    {
      ...command,
      meta: { ...(await resolveValue(command.meta)), name: name.split(" ").at(-1) ?? name },
    },
    name,
  );
}

const resolveArgs = async (command: CommandDef): Promise<ArgsDef> =>
  (await resolveValue(command.args)) ?? {};

type Resolvable<Value> = Value | Promise<Value> | (() => Value) | (() => Promise<Value>);

async function resolveValue<Value extends object>(
  value: Resolvable<Value> | undefined,
): Promise<Value | undefined> {
  return await (typeof value === "function" ? (value as () => Value | Promise<Value>)() : value);
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
