// Precompute inputs: reads one input per line, in the forms that the predict route accepts.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
import { cliErrors } from "../errors.ts";

export type PrecomputeInput = string | { readonly b64: string };

export interface InputLine {
  /** Line number in the file, from 1. */
  readonly line: number;
  readonly input: PrecomputeInput;
}

/** Other fields, such as the label of a sample, are ignored. */
const lineSchema = z.union(
  [
    z.string(),
    z.object({ text: z.string() }).transform(({ text }) => text),
    z.object({ b64: z.base64() }),
  ],
  'must be "a text", {"text": "a text"} or {"b64": "<an image>"}',
);

/** Reads each distinct input once, in the order of the file. @throws usage for an invalid line or an empty file */
export async function readInputs(
  path: string,
  command: string,
): Promise<{ readonly lines: readonly InputLine[]; readonly sha256: string }> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw cliErrors.usage(`Cannot read --inputs ${path}: ${reasonOf(error)}`, command);
  });
  const byContent = new Map<string, InputLine>();
  for (const [index, row] of text.split("\n").entries()) {
    if (row.trim() === "") continue;
    const input = parseLine(row, `--inputs ${path}, line ${index + 1}`, command);
    const content = JSON.stringify(input);
    if (!byContent.has(content)) byContent.set(content, { line: index + 1, input });
  }
  if (byContent.size === 0) throw cliErrors.usage(`--inputs ${path} contains no inputs`, command);
  return {
    lines: [...byContent.values()],
    sha256: createHash("sha256").update(text).digest("hex"),
  };
}

function parseLine(row: string, source: string, command: string): PrecomputeInput {
  let value: unknown;
  try {
    value = JSON.parse(row);
  } catch (error) {
    throw cliErrors.usage(`${source} is not JSON: ${reasonOf(error)}`, command);
  }
  const parsed = lineSchema.safeParse(value);
  if (!parsed.success)
    throw cliErrors.usage(`${source}: ${formatZodIssues(parsed.error).join("; ")}`, command);
  return parsed.data;
}
