// Command line: runs a tree of citty commands and adds what citty lacks. Unknown options are rejected with a suggestion,
// deprecated names keep working with a warning, and exit codes distinguish usage errors (2) from failures (1).

import { parseArgs, stripVTControlCharacters } from "node:util";
import { type ArgsDef, type CommandDef, parseArgs as parseOptions, runCommand } from "citty";
import { EdgeTierError, reasonOf } from "../core/errors.ts";
import { VERSION } from "../core/version.ts";
import { renderNextStep } from "./command-guides.ts";
import {
  type DeprecatedName,
  findRenamedCommand,
  renderDeprecation,
  replaceDeprecatedOptions,
} from "./deprecated-names.ts";
import { cliErrors } from "./errors.ts";
import { renderCommandHelp, renderGroupHelp } from "./help.ts";
import { printError, printUsageWarning, createProgressPrinter } from "./output.ts";
import { suggestName } from "./suggest-name.ts";

export const EXIT_CODES = { ok: 0, failed: 1, usage: 2 } as const;

interface ResolvedCommand {
  readonly command: CommandDef;
  /** Full name in current spelling, for example `edgetier model publish`. */
  readonly name: string;
  readonly args: readonly string[];
  readonly deprecated: readonly DeprecatedName[];
  readonly problem?: string;
}

/** Runs the command that `argv` names and prints its errors. Returns the exit code. */
export async function runCommandLine(root: CommandDef, argv: readonly string[]): Promise<number> {
  const json = argv.includes("--json");
  if (argv[0] === "--version" || argv[0] === "-v") {
    print(VERSION);
    return EXIT_CODES.ok;
  }
  const { command, name, args: given, problem, deprecated } = await resolveCommand(root, argv);
  const { args, deprecated: options } = replaceDeprecatedOptions(name, given);
  for (const rename of [...deprecated, ...options])
    printUsageWarning(renderDeprecation(rename), json);
  if (problem === undefined && isHelpRequested(args)) {
    print(await renderHelp(command, name));
    return EXIT_CODES.ok;
  }
  const usageProblem = problem ?? findUsageProblem(await resolveArgs(command), args);
  if (usageProblem !== undefined) {
    printError(cliErrors.usage(usageProblem, name), json);
    return EXIT_CODES.usage;
  }
  return await execute({ command, name, args, json });
}

interface Execution {
  readonly command: CommandDef;
  readonly name: string;
  readonly args: readonly string[];
  readonly json: boolean;
}

async function execute({ command, name, args, json }: Execution): Promise<number> {
  try {
    await runCommand(command, { rawArgs: [...args] });
    const nextStep = renderNextStep(name, parseOptions([...args], await resolveArgs(command)));
    if (nextStep !== undefined) createProgressPrinter(json)(nextStep);
    return EXIT_CODES.ok;
  } catch (error) {
    // citty throws this for missing arguments and for values outside an enum.
    const isUsageError = error instanceof Error && error.name === "CLIError";
    const shown = isUsageError
      ? cliErrors.usage(stripVTControlCharacters(reasonOf(error)), name)
      : error;
    printError(shown, json);
    return shown instanceof EdgeTierError && shown.code === "usage"
      ? EXIT_CODES.usage
      : EXIT_CODES.failed;
  }
}

/** Follows the names of subcommands until a command without subcommands, or a problem. */
async function resolveCommand(root: CommandDef, argv: readonly string[]): Promise<ResolvedCommand> {
  const deprecated: DeprecatedName[] = [];
  let command = root;
  let name = "edgetier";
  for (let index = 0; ; index++) {
    const children = await resolveValue(command.subCommands);
    const args = argv.slice(index);
    const resolved = { command, name, args, deprecated };
    if (children === undefined) return resolved;
    const names = Object.keys(children);
    const [word] = args;
    if (word === undefined || word.startsWith("-")) {
      if (isHelpRequested(args)) return resolved;
      return { ...resolved, problem: describeMissingCommand(word, names, command === root) };
    }
    const current = findRenamedCommand(name, word) ?? word;
    if (current !== word)
      deprecated.push({ name: `${name} ${word}`, replacement: `${name} ${current}` });
    const child = names.includes(current) ? await resolveValue(children[current]) : undefined;
    if (child === undefined)
      return { ...resolved, problem: describeUnknown("command", word, names) };
    command = child;
    name += ` ${current}`;
  }
}

function describeMissingCommand(
  word: string | undefined,
  names: readonly string[],
  isRoot: boolean,
): string {
  return word === undefined || word === "--json"
    ? `The command is missing; expected one of ${names.join(", ")}`
    : describeUnknown("option", word, isRoot ? ["--help", "--version"] : ["--help"]);
}

function describeUnknown(
  kind: "command" | "option",
  name: string,
  known: readonly string[],
): string {
  const suggestion = suggestName(name, known);
  const problem = `Unknown ${kind} ${JSON.stringify(name)}`;
  return suggestion === undefined
    ? problem
    : `${problem}. Did you mean ${JSON.stringify(suggestion)}?`;
}

const isHelpRequested = (args: readonly string[]): boolean =>
  args.slice(0, findEndOfOptions(args)).some((arg) => arg === "--help" || arg === "-h");

function findEndOfOptions(args: readonly string[]): number {
  const end = args.indexOf("--");
  return end < 0 ? args.length : end;
}

/** Finds what Node's strict parser rejects (unknown options, missing or superfluous values) and surplus arguments. */
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
      ? `Unexpected argument ${JSON.stringify(positionals[expected])}`
      : undefined;
  } catch (error) {
    return describeParseError(error, listOptions(options));
  }
}

function describeParseError(error: unknown, known: readonly string[]): string {
  const reason = reasonOf(error);
  const unknown = /^Unknown option '([^']+)'/.exec(reason)?.[1];
  if (unknown !== undefined) return describeUnknown("option", unknown, known);
  return (reason.split(/\.? To specify a positional/)[0] ?? reason).replace(/\.$/, "");
}

const listOptions = (options: Readonly<Record<string, { readonly type: string }>>): string[] => [
  "--help",
  ...Object.entries(options).flatMap(([name, { type }]) =>
    type === "boolean" ? [`--${name}`, `--no-${name}`] : [`--${name}`],
  ),
];

/** The option's second name of one letter, as in `-o`. */
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
