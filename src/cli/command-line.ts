// Runs a tree of citty commands with what citty leaves open: unknown options are refused, and exit codes tell usage
// errors (2) from failures (1).

import { cliErrors } from "./errors.ts";
import { parseArgs, stripVTControlCharacters } from "node:util";
import { type ArgsDef, type CommandDef, parseArgs as parseOptions, runCommand } from "citty";
import { EdgeTierError, reasonOf } from "../core/errors.ts";
import { commandHelp, groupHelp } from "./help.ts";
import { nextStep } from "./next-steps.ts";
import { printError, progressTo } from "./output.ts";

export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

interface Found {
  readonly command: CommandDef;
  /** As the user calls it, for example `edgetier model publish`. */
  readonly name: string;
  readonly rest: readonly string[];
  readonly problem?: string;
}

/** @returns the exit code; errors have been printed. */
export async function runCommandLine(root: CommandDef, argv: readonly string[]): Promise<number> {
  const json = argv.includes("--json");
  const { command, name, rest, problem } = await find(root, argv);
  if (problem === undefined && asksForHelp(rest)) {
    print(await helpOf(command, name));
    return EXIT.ok;
  }
  const wrong = problem ?? usageProblem(await argsOf(command), rest);
  if (wrong !== undefined) {
    printError(cliErrors.usage(wrong, name), json);
    return EXIT.usage;
  }
  try {
    await runCommand(command, { rawArgs: [...rest] });
    const next = nextStep(name, parseOptions([...rest], await argsOf(command)));
    if (next !== undefined) progressTo(json)(next);
    return EXIT.ok;
  } catch (error) {
    const missing = error instanceof Error && error.name === "CLIError"; // citty's own
    const shown = missing
      ? cliErrors.usage(stripVTControlCharacters(reasonOf(error)), name)
      : error;
    printError(shown, json);
    return shown instanceof EdgeTierError && shown.code === "usage" ? EXIT.usage : EXIT.failed;
  }
}

/** Follows the names of sub-commands as far as they go. */
async function find(root: CommandDef, argv: readonly string[]): Promise<Found> {
  let command = root;
  let name = "edgetier";
  for (let index = 0; ; index++) {
    const children = await valueOf(command.subCommands);
    const rest = argv.slice(index);
    if (children === undefined) return { command, name, rest };
    const [word] = rest;
    if (word === undefined || word.startsWith("-")) {
      return {
        command,
        name,
        rest,
        ...(asksForHelp(rest)
          ? {}
          : { problem: `Say which command: ${Object.keys(children).join(", ")}` }),
      };
    }
    const child = Object.hasOwn(children, word) ? await valueOf(children[word]) : undefined;
    if (child === undefined)
      return { command, name, rest, problem: `There is no command ${JSON.stringify(word)}` };
    command = child;
    name += ` ${word}`;
  }
}

const asksForHelp = (args: readonly string[]): boolean =>
  args.slice(0, indexOfEnd(args)).some((one) => one === "--help" || one === "-h");

function indexOfEnd(args: readonly string[]): number {
  const end = args.indexOf("--");
  return end < 0 ? args.length : end;
}

/** What Node's strict parser objects to: unknown options, missing or superfluous values; and too many arguments. */
function usageProblem(definitions: ArgsDef, args: readonly string[]): string | undefined {
  const named = Object.entries(definitions).filter(
    ([, definition]) => definition.type !== "positional",
  );
  const options = Object.fromEntries(
    named.map(([name, definition]) => [
      name,
      {
        type: definition.type === "boolean" ? ("boolean" as const) : ("string" as const),
        ...shortOf(definition),
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
function shortOf(definition: ArgsDef[string]): { short?: string } {
  const names = "alias" in definition ? [definition.alias].flat() : [];
  const short = names.find((name) => name?.length === 1);
  return short === undefined ? {} : { short };
}

async function helpOf(command: CommandDef, name: string): Promise<string> {
  const children = await valueOf(command.subCommands);
  if (children !== undefined) return groupHelp(name, Object.keys(children));
  return await commandHelp(
    {
      ...command,
      meta: { ...(await valueOf(command.meta)), name: name.split(" ").at(-1) ?? name },
    },
    name,
  );
}

const argsOf = async (command: CommandDef): Promise<ArgsDef> => (await valueOf(command.args)) ?? {};

type Resolvable<Value> = Value | Promise<Value> | (() => Value) | (() => Promise<Value>);

async function valueOf<Value extends object>(
  value: Resolvable<Value> | undefined,
): Promise<Value | undefined> {
  return await (typeof value === "function" ? (value as () => Value | Promise<Value>)() : value);
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
