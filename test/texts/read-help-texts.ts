// Renders `--help` of every command.

import type { CommandDef } from "citty";
import { rootCommand } from "../../src/cli/commands/root.ts";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { runEdgetier } from "../support/edgetier-command.ts";

type Resolvable<Value> = Value | Promise<Value> | (() => Value | Promise<Value>);

const resolveValue = async <Value extends object>(
  value: Resolvable<Value> | undefined,
): Promise<Value | undefined> =>
  await (typeof value === "function" ? (value as () => Value | Promise<Value>)() : value);

async function listCommands(command: CommandDef, path: readonly string[]): Promise<string[][]> {
  const children = (await resolveValue(command.subCommands)) ?? {};
  const below: string[][] = [];
  for (const [name, child] of Object.entries(children))
    below.push(
      ...(await listCommands((await resolveValue(child as Resolvable<CommandDef>)) ?? {}, [
        ...path,
        name,
      ])),
    );
  return [[...path], ...below];
}

/** Help of the root command and of all others, by their path; the project's folder is `<project>`. */
export async function readHelpTexts(): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const path of await listCommands(rootCommand, []))
    texts.set(
      path.join(" "),
      (await runEdgetier([...path, "--help"])).stdout.replaceAll(PROJECT_ROOT, "<project>"),
    );
  return texts;
}
