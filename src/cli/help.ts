// Help: renders one line per subcommand for a group, and the options with an example for a command.

import { stripVTControlCharacters } from "node:util";
import { type CommandDef, renderUsage } from "citty";
import {
  CLI_INVOCATION,
  GROUP_SUMMARIES,
  COMMAND_GROUPS,
  COMMAND_GUIDES,
} from "./command-guides.ts";

/**
 * Renders the help of a group of commands.
 * @param name full name, such as `edgetier model`
 * @param children names of the group's subcommands
 */
export function renderGroupHelp(name: string, children: readonly string[]): string {
  const path = name.split(" ").slice(1);
  const summary = (child: string): string => {
    const key = [...path, child].join(" ");
    return COMMAND_GUIDES[key]?.summary ?? GROUP_SUMMARIES[key] ?? "";
  };
  const width = Math.max(...children.map(({ length }) => length));
  const lines = (names: readonly string[]) =>
    names.map((child) => `  ${child.padEnd(width)}  ${summary(child)}`.trimEnd());
  const head = `USAGE ${name} <command> [--help]`;
  if (path.length > 0) return [head, ...lines(children)].join("\n");
  const grouped = new Set(COMMAND_GROUPS.flatMap(({ commands }) => commands));
  const others = children.filter((child) => !grouped.has(child));
  const groups = [
    ...COMMAND_GROUPS.map(({ title, commands }) => ({
      title,
      names: commands.filter((child) => children.includes(child)),
    })),
    { title: "Other", names: others },
  ];
  return [
    head,
    "",
    ...groups.flatMap(({ title, names }) => (names.length === 0 ? [] : [title, ...lines(names)])),
  ].join("\n");
}

/**
 * Renders the help of one command. Styles are kept only on a terminal.
 * @param name full name, such as `edgetier model publish`
 */
export async function renderCommandHelp(command: CommandDef, name: string): Promise<string> {
  const words = name.split(" ");
  const usage = await renderUsage(command, { meta: { name: words.slice(0, -1).join(" ") } });
  const guide = COMMAND_GUIDES[words.slice(1).join(" ")];
  const text =
    guide === undefined
      ? usage
      : `${usage.trimEnd()}\n\nEXAMPLE\n\n  ${CLI_INVOCATION} ${guide.example}\n`;
  return (process.stdout.isTTY ? text : stripVTControlCharacters(text)).replaceAll(/ +$/gm, "");
}
