// Tests `--help` and the next step of every command.
import type { CommandDef } from "citty";
import { describe, expect, it } from "vitest";
import { CLI_INVOCATION, COMMAND_GUIDES, renderNextStep } from "../../src/cli/command-guides.ts";
import { rootCommand } from "../../src/cli/commands/root.ts";
import { renderCommandHelp, renderGroupHelp } from "../../src/cli/help.ts";
import { runEdgetier } from "../support/edgetier-command.ts";

const SCREEN = { lines: 24, columns: 80 };

interface NamedCommand {
  readonly name: string;
  readonly command: CommandDef;
}

async function all(
  name: string,
  command: CommandDef,
): Promise<{
  readonly groups: readonly (NamedCommand & { readonly children: readonly string[] })[];
  readonly leaves: readonly NamedCommand[];
}> {
  const children = (await resolved(command.subCommands)) ?? {};
  if (Object.keys(children).length === 0) return { groups: [], leaves: [{ name, command }] };
  const below = await Promise.all(
    Object.entries(children).map(
      async ([child, one]) => await all(`${name} ${child}`, (await resolved(one)) ?? {}),
    ),
  );
  return {
    groups: [
      { name, command, children: Object.keys(children) },
      ...below.flatMap(({ groups }) => groups),
    ],
    leaves: below.flatMap(({ leaves }) => leaves),
  };
}

/** citty takes a value, a promise, or a function of either. */
async function resolved<Value>(
  value: Value | Promise<Value> | (() => Value | Promise<Value>) | undefined,
): Promise<Value | undefined> {
  return await (typeof value === "function" ? (value as () => Value | Promise<Value>)() : value);
}

const { groups, leaves } = await all("edgetier", rootCommand);
const keyOf = (name: string) => name.replace(/^edgetier /, "");

describe("help", () => {
  it.each(groups)(
    "of $name fits a screen, and has a line for each subcommand",
    ({ name, children }) => {
      const lines = renderGroupHelp(name, children).split("\n");
      expect(lines.length).toBeLessThanOrEqual(SCREEN.lines);
      expect(lines.filter((line) => line.length > SCREEN.columns)).toEqual([]);
      for (const child of children)
        expect(lines).toContainEqual(expect.stringMatching(new RegExp(`^  ${child} +\\S`)));
    },
  );

  it.each(leaves)("of $name has an example that calls $name", async ({ name, command }) => {
    const example = COMMAND_GUIDES[keyOf(name)]?.example ?? "no example";
    expect(`${example} `).toMatch(new RegExp(`^${keyOf(name)} `));
    expect(await renderCommandHelp(command, name)).toContain(`${CLI_INVOCATION} ${example}`);
  });

  it.each(leaves)("$name takes the options of its example", async ({ name, command }) => {
    const options = Object.entries((await resolved(command.args)) ?? {}).flatMap(
      ([option, definition]) => [
        option,
        ...("alias" in definition ? [definition.alias ?? []].flat() : []),
      ],
    );
    const used = [
      ...(COMMAND_GUIDES[keyOf(name)]?.example ?? "").matchAll(/ --?([a-z][\w-]*)/g),
    ].map(([, option]) => option);
    expect(options).toEqual(expect.arrayContaining(used));
  });

  it("describes existing commands only", () => {
    expect(Object.keys(COMMAND_GUIDES).toSorted()).toEqual(
      leaves.map(({ name }) => keyOf(name)).toSorted(),
    );
  });
});

describe("the next step", () => {
  it.each(leaves.filter(({ name }) => name !== "edgetier start"))(
    "of $name calls commands by `npm run edgetier`",
    ({ name }) => {
      const next = renderNextStep(name, {}) ?? "";
      expect(next).toMatch(/^Next: ./);
      expect(next).not.toContain("`edgetier");
    },
  );

  it("names existing commands only", () => {
    const called = leaves.flatMap(({ name }) =>
      [
        ...(renderNextStep(name, {}) ?? "")
          .replaceAll(`${CLI_INVOCATION} `, "edgetier ")
          .matchAll(/`(edgetier(?: [a-z][a-z0-9]*)+)/g),
      ].map(([, command]) => command ?? ""),
    );
    const unknown = called.filter(
      (command) => !leaves.some(({ name }) => command === name || command.startsWith(`${name} `)),
    );
    expect(unknown).toEqual([]);
  });

  it("is printed on stderr with the values of the command, and not with --json", async () => {
    const made = await runEdgetier(["region", "key", "--id", "edge-1"]);
    expect(made.stdout).not.toContain("Next:");
    expect(made.stderr).toMatch(/^Next: .*EDGETIER_REGION_KEYS.*\n$/);
    expect(await runEdgetier(["region", "key", "--json"])).toMatchObject({ code: 0, stderr: "" });
    expect(
      renderNextStep("edgetier model publish", { folder: "models/moods/", alias: "canary" }),
    ).toContain("--model moods@canary");
  });

  it("is not printed after a failure", async () => {
    expect((await runEdgetier(["region", "key", "--id", "no spaces"])).stderr).not.toContain(
      "Next:",
    );
  });
});
