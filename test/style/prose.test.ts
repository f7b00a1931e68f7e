// The prose linter finds each kind of violation, and accepts plain sentences.
import { describe, expect, it } from "vitest";
import { checkFile, type Finding } from "./prose.ts";

const rulesOf = (findings: readonly Finding[]) => findings.map(({ rule }) => rule);
const longSentence = `The batch ${"waits in the queue and ".repeat(7)}runs.`;

describe("checkFile", () => {
  it.each([
    { name: "an opening", text: "// What a region answers.", rules: ["opening"] },
    {
      name: "an opening of a later sentence",
      text: "// A bound. Of the body.",
      rules: ["opening"],
    },
    { name: "a dialect word", text: "/** Rejects nothing, refuses all. */", rules: ["word"] },
    { name: "British spelling", text: "// The quantised graph.", rules: ["spelling"] },
    { name: "a long sentence", text: `// ${longSentence}`, rules: ["length"] },
    { name: "a dialect word in a message", text: 'f("The region refused it.");', rules: ["word"] },
    {
      name: "a dialect word in a template",
      text: "f(`Tensor ${name} was refused twice.`);",
      rules: ["word"],
    },
  ])("finds $name in TypeScript", ({ text, rules }) => {
    expect(rulesOf(checkFile("a.ts", `${text}\nexport const a = 1;\n`))).toEqual(rules);
  });

  it.each([
    { name: "plain sentences", text: "// The queue is full. A caller retries." },
    { name: "an error code in a string", text: 'f("region_refused");' },
    { name: "a code span", text: "// Compares with `refused`." },
    { name: "a question", text: "// What fails first?" },
    { name: "lint directives", text: "// oxlint-disable-next-line no-console -- What" },
  ])("accepts $name in TypeScript", ({ text }) => {
    expect(checkFile("a.ts", `${text}\nexport const a = 1;\n`)).toEqual([]);
  });

  it("joins adjacent line comments, and reports the line of the first", () => {
    const source = `const a = 1;\n// The batch\n// was refused.\nconst b = a;\n`;
    expect(checkFile("a.ts", source)).toMatchObject([{ line: 2, rule: "word" }]);
  });

  it("checks paragraphs, list items and table cells of Markdown, but no code", () => {
    const source = [
      "# Title",
      "What is here.",
      "",
      "- Of a list.",
      "",
      "| cell |",
      "|---|",
      "| By name |",
      "",
      "```sh",
      "# What runs",
      "```",
    ].join("\n");
    expect(checkFile("a.md", source)).toMatchObject([
      { line: 2, rule: "opening" },
      { line: 4, rule: "opening" },
      { line: 8, rule: "opening" },
    ]);
  });
});
