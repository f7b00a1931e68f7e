// Extracts prose from comments, messages and Markdown, and reports where it breaks the rules.

import ts from "typescript";
import { BANNED_OPENINGS, BANNED_WORDS, BRITISH, MAX_SENTENCE_WORDS } from "./prose-rules.ts";

export interface Prose {
  readonly line: number;
  readonly text: string;
  readonly kind: "comment" | "message" | "markdown";
}

export interface Finding {
  readonly line: number;
  readonly rule: "opening" | "word" | "spelling" | "length";
  readonly message: string;
}

const lineOf = (text: string, position: number): number =>
  text.slice(0, position).split("\n").length;

const isToolComment = (text: string): boolean =>
  /^(eslint|oxlint|@ts-|prettier|oxfmt|v8 ignore|#region|<reference|\s*@vitest)/.test(text.trim());

const stripMarkers = (comment: string): string =>
  comment
    .replace(/^\/\*\*?|\*\/$/g, "")
    .replace(/^\s*\*( |$)/gm, "")
    .replace(/^\/\/+ ?/gm, "");

const isComment = (kind: ts.SyntaxKind): boolean =>
  kind === ts.SyntaxKind.SingleLineCommentTrivia || kind === ts.SyntaxKind.MultiLineCommentTrivia;

/** Every comment of a file; adjacent `//` lines are one comment. */
export function readComments(file: ts.SourceFile): Prose[] {
  const source = file.text;
  const ranges = new Map<number, number>();
  const addRange = (pos: number, end: number, kind: ts.SyntaxKind) => {
    if (isComment(kind)) ranges.set(pos, end);
  };
  const visit = (node: ts.Node) => {
    for (const child of node.getChildren(file)) {
      ts.forEachLeadingCommentRange(source, child.getFullStart(), addRange);
      ts.forEachTrailingCommentRange(source, child.getEnd(), addRange);
      visit(child);
    }
  };
  visit(file);
  const comments: { start: number; end: number }[] = [];
  for (const [start, end] of [...ranges].toSorted(([a], [b]) => a - b)) {
    const last = comments.at(-1);
    const gap = last === undefined ? "" : source.slice(last.end, start);
    if (last !== undefined && source.startsWith("//", start) && /^\n[ \t]*$/.test(gap))
      last.end = end;
    else comments.push({ start, end });
  }
  return comments
    .map(({ start, end }) => ({
      line: lineOf(source, start),
      kind: "comment" as const,
      text: stripMarkers(source.slice(start, end).replaceAll(/\n[ \t]+/g, "\n")),
    }))
    .filter(({ text }) => !isToolComment(text));
}

/** Texts that a person reads: strings and templates of at least three words. */
export function readMessages(file: ts.SourceFile): Prose[] {
  const messages: Prose[] = [];
  const add = (node: ts.Node, text: string) => {
    if (/\S+ \S+ \S+/.test(text) && /[a-z]{3}/.test(text))
      messages.push({ line: lineOf(file.text, node.getStart(file)), kind: "message", text });
  };
  const visit = (node: ts.Node) => {
    if (ts.isStringLiteralLike(node)) add(node, node.text);
    else if (ts.isTemplateExpression(node))
      add(
        node,
        [node.head, ...node.templateSpans.map((span) => span.literal)]
          .map((part) => part.text)
          .join("X"),
      );
    node.forEachChild(visit);
  };
  visit(file);
  return messages;
}

/** The paragraphs, list items and table cells of a Markdown file, without its code. */
export function readMarkdown(source: string): Prose[] {
  const withoutCode = source.replaceAll(/```[\s\S]*?```/g, (code) => code.replaceAll(/[^\n]/g, ""));
  const blocks: Prose[] = [];
  let start = 1;
  let lines: string[] = [];
  const flush = () => {
    if (lines.length > 0) blocks.push({ line: start, kind: "markdown", text: lines.join("\n") });
    lines = [];
  };
  for (const [index, line] of withoutCode.split("\n").entries()) {
    if (/^\s*$|^\s*[-*] |^#|^\s*\d+\. |^\|/.test(line)) flush();
    if (line.startsWith("|")) {
      for (const cell of line.split("|"))
        blocks.push({ line: index + 1, kind: "markdown", text: cell.trim() });
      continue;
    }
    if (/^\s*$/.test(line)) continue;
    if (lines.length === 0) start = index + 1;
    lines.push(line.replace(/^\s*(?:[-*]|\d+\.|#+|>) ?/, ""));
    if (line.startsWith("#")) flush();
  }
  flush();
  return blocks;
}

const plain = (text: string): string =>
  text
    .replaceAll(/`[^`]*`/g, "Code")
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/@example[\s\S]*/g, "")
    .replaceAll("**", "");

/** Sentences end at a full stop, a colon or semicolon at a line's end, or an empty line. */
const sentencesOf = (text: string): string[] =>
  plain(text)
    .split(/(?<=[.!?;])\s+(?=["'(A-Z`0-9])|\n\s*\n|\n(?=\s*[-*@] )|:\n|\n(?=@)/)
    .map((sentence) => sentence.replaceAll(/\s+/g, " ").trim())
    .filter((sentence) => sentence !== "");

const wordPatterns = (rules: readonly (readonly [string, string])[]) =>
  rules.map(([pattern, replacement]) => ({
    regex: new RegExp(`\\b(?:${pattern})\\b`, "i"),
    replacement,
  }));
const DIALECT = wordPatterns(BANNED_WORDS);
const SPELLINGS = wordPatterns(BRITISH);
const OPENING = new RegExp(`^(?:${BANNED_OPENINGS.join("|")})\\b(?!-)`);

function checkWords({ line, text }: Prose): Finding[] {
  const findings: Finding[] = [];
  for (const { rule, patterns } of [
    { rule: "word" as const, patterns: DIALECT },
    { rule: "spelling" as const, patterns: SPELLINGS },
  ]) {
    for (const { regex, replacement } of patterns) {
      const match = regex.exec(plain(text));
      if (match !== null)
        findings.push({ line, rule, message: `"${match[0]}": write ${replacement}` });
    }
  }
  return findings;
}

/** Checks one piece of prose by STYLE's rules. */
export function checkProse(prose: Prose): Finding[] {
  const findings = checkWords(prose);
  if (prose.kind === "message") return findings;
  for (const sentence of sentencesOf(prose.text)) {
    const { line } = prose;
    const opening = OPENING.exec(sentence);
    if (opening !== null && !sentence.endsWith("?"))
      findings.push({
        line,
        rule: "opening",
        message: `opens with "${opening[0]}": ${sentence.slice(0, 60)}`,
      });
    const words = sentence.split(" ").filter((word) => /\w/.test(word)).length;
    if (words > MAX_SENTENCE_WORDS)
      findings.push({ line, rule: "length", message: `${words} words: ${sentence.slice(0, 60)}…` });
  }
  return findings;
}

/** Checks a TypeScript file's comments and messages, or a Markdown file's text. */
export function checkFile(path: string, source: string): Finding[] {
  if (path.endsWith(".md")) return readMarkdown(source).flatMap(checkProse);
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true);
  return [...readComments(file), ...readMessages(file)].flatMap(checkProse);
}
